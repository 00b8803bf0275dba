"""Per-pixel uncertainty for any MMSegmentation model.

Importing the package fills mmseg's registries, so a config needs only
``custom_imports = dict(imports=['abnn_mmseg'])``.
"""
import importlib.util
import io
import sys
import warnings
from contextlib import redirect_stdout

__version__ = '0.1.0'

for _name in ('torch', 'mmengine', 'mmcv', 'mmseg'):
    if importlib.util.find_spec(_name) is None:
        raise ImportError(
            f'abnn_mmseg needs {_name}, which is not installed; run '
            "`pip install 'abnn-mmseg[onedl]'` (or `pip install -e "
            "'.[onedl]'` in a clone).")

# Hides messages of mmseg and mmcv about optional packages.
with redirect_stdout(io.StringIO()) as _printed, warnings.catch_warnings():
    warnings.filterwarnings('ignore', 'Fail to import ``MultiScaleDeformable')
    from abnn_mmseg import (  # noqa: E402, F401
        datasets,
        engine,
        evaluation,
        models,
    )
    from abnn_mmseg.utils.checkpoints import (  # noqa: E402
        allow_checkpoints,
    )
    from abnn_mmseg.utils.configs import (  # noqa: E402
        config_path,
        register_names,
    )

# Standard output is for results.
sys.stderr.writelines(
    _line for _line in _printed.getvalue().splitlines(keepends=True)
    if 'OneDL' not in _line)

__all__ = ['__version__', 'config_path']

register_names()
allow_checkpoints()
