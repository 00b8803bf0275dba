"""Per-pixel uncertainty for any MMSegmentation model.

Importing the package fills mmseg's registries, so a config needs only
``custom_imports = dict(imports=['abnn_mmseg'])``.
"""
import importlib.metadata
import importlib.util
import sys
from contextlib import redirect_stdout

__version__ = '0.1.0'

for _name in ('torch', 'mmengine', 'mmcv', 'mmseg'):
    if importlib.util.find_spec(_name) is None:
        raise ImportError(
            f'abnn_mmseg needs {_name}, which is not installed; run '
            "`pip install 'abnn-mmseg[onedl]'` (or `pip install -e "
            "'.[onedl]'` in a clone).")

from mmengine.config.utils import MODULE2PACKAGE  # noqa: E402

try:
    importlib.metadata.distribution(MODULE2PACKAGE['mmseg'])
except importlib.metadata.PackageNotFoundError:
    # What `mmseg::` in a config stands for, which mmengine looks up by the
    # name of the distribution.
    MODULE2PACKAGE['mmseg'] = 'onedl-mmsegmentation'

# mmseg may print while it is imported; standard output is for results.
with redirect_stdout(sys.stderr):
    from abnn_mmseg import (  # noqa: E402, F401
        datasets,
        engine,
        evaluation,
        models,
    )
