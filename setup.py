"""Packaging of abnn-mmseg."""
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

here = Path(__file__).parent
version = next(
    line.split("'")[1]
    for line in (here / 'abnn_mmseg/__init__.py').read_text().splitlines()
    if line.startswith('__version__'))
SERVE = ['fastapi>=0.100', 'python-multipart>=0.0.6', 'uvicorn>=0.20']
DASK = ['dask>=2023.1', 'distributed>=2023.1']
ONNX = ['onnx>=1.17', 'onnxruntime>=1.20', 'onnxscript>=0.5']


class BuildWithConfigs(build_py):
    """Puts configs and tools into the wheel, where `mim` looks for them.

    An editable install has them beside the package.
    """

    def run(self) -> None:
        super().run()
        if getattr(self, 'editable_mode', False):
            return
        target = Path(self.build_lib) / 'abnn_mmseg' / '.mim'
        shutil.rmtree(target, ignore_errors=True)
        ignore = shutil.ignore_patterns(
            '__pycache__', 'benchmark.py', 'benchmarks')
        for folder in ('configs', 'tools'):
            shutil.copytree(here / folder, target / folder, ignore=ignore)
        shutil.copy(here / 'model-index.yml', target)


setup(
    name='abnn-mmseg',
    version=version,
    description='Per-pixel uncertainty for any MMSegmentation model',
    long_description=(here / 'README.md').read_text(),
    long_description_content_type='text/markdown',
    author='The abnn_mmseg authors',
    project_urls={
        'Paper': 'https://arxiv.org/abs/2312.15297',
        'MMSegmentation': 'https://github.com/open-mmlab/mmsegmentation',
    },
    license='Apache-2.0',
    keywords='semantic segmentation, uncertainty, anomaly detection, '
    'Bayesian neural networks, MMSegmentation',
    classifiers=[
        'Development Status :: 4 - Beta',
        'Intended Audience :: Science/Research',
        'Operating System :: OS Independent',
        'Programming Language :: Python :: 3',
        'Topic :: Scientific/Engineering :: Artificial Intelligence',
        'Topic :: Scientific/Engineering :: Image Recognition',
        'Typing :: Typed',
    ],
    python_requires='>=3.9',
    packages=find_packages(include=['abnn_mmseg', 'abnn_mmseg.*']),
    package_data={'abnn_mmseg': [
        'py.typed', 'export/gallery/web/*',
        'datasets/muad_sketch/base.pth']},
    cmdclass=dict(build_py=BuildWithConfigs),
    entry_points=dict(console_scripts=['abnn = abnn_mmseg.cli.main:main']),
    zip_safe=False,
    install_requires=[
        'torch>=2.5',
        'numpy>=1.24',
        'opencv-python>=4.6',
        'rich>=12',  # progress bars and tables of the tools
    ],
    extras_require=dict(
        # The maintained forks: pip installs them without a compiler.
        onedl=[
            'onedl-mmengine>=0.10.12,<0.11',
            'onedl-mmcv>=2.3.6,<2.4',
            'onedl-mmsegmentation>=1.4.2,<1.5',
        ],
        # The original packages.
        openmmlab=[
            'mmengine>=0.10.4,<0.11',
            'mmcv>=2.1,<2.2',
            'mmsegmentation>=1.2.2,<1.3',
            'ftfy',
            'regex',
            'setuptools<81',  # for `mmseg::`: mmengine asks pkg_resources
        ],
        zoo=['onedl-mmpretrain>=1.3.6,<1.4'],  # ConvNeXt
        plots=['matplotlib>=3.6'],  # curves of `abnn test`
        hdf5=['h5py>=3.8'],  # SegmentMeIfYouCan submissions
        onnx=ONNX,  # `abnn onnx`
        serve=SERVE,  # examples/serve.py
        rasters=['rasterio>=1.3'],  # GeoTIFF
        tiff=['tifffile>=2022.2'],  # TIFFs of more than four bands
        volumes=['nibabel>=5'],  # NIfTI
        dask=DASK,  # examples/dask_map.py
        docs=['mkdocs-material>=9.5', 'mkdocstrings[python]>=0.25'],
        # A reference of a test. It needs torchvision, which needs the torch of
        # its own release: install it with --no-deps beside another one.
        laplace=['laplace-torch>=0.2'],
        dev=[
            'pytest>=7',
            'pytest-cov>=5',
            'pytest-xdist>=3',
            'hypothesis>=6.90',
            'mypy>=1.10',
            'ruff>=0.5',
            'scikit-learn>=1.2',  # the reference of the metrics' tests
            'mapie>=1.4',  # the reference of the guarantees' tests
            'selenium>=4.10',  # the page's tests, where Chromium is installed
            'matplotlib>=3.6',
            'h5py>=3.8',
            # the reference of R-hat and effective sample size
            'arviz-stats>=0.6; python_version >= "3.11"',
            'tensorboard>=2.10',  # a backend of the visualizer's tests
            'rasterio>=1.3',
            'tifffile>=2022.2',
            'nibabel>=5',
            *SERVE,
            'httpx>=0.24',  # the client of the server's test
            *DASK,
            *ONNX,
        ]))
