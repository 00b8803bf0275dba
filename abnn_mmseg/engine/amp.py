"""Mixed precision: bfloat16 on a CPU, float16 or bfloat16 on a GPU."""
from contextlib import contextmanager

import torch
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.optim import OptimWrapper
from mmengine.runner import autocast
from mmseg.registry import OPTIM_WRAPPERS

DTYPES = ('float16', 'bfloat16')


@OPTIM_WRAPPERS.register_module()
class CPUAmpOptimWrapper(OptimWrapper):
    """mmengine's ``AmpOptimWrapper`` without an accelerator.

    bfloat16 has the range of float32, so no loss needs scaling.
    """

    @contextmanager
    def optim_context(self, model):
        """Run the forward pass in bfloat16."""
        with super().optim_context(model), autocast(dtype=torch.bfloat16):
            yield


def default_dtype() -> str:
    """The type of ``--amp`` without a value on this machine."""
    return 'bfloat16' if get_device() == 'cpu' else 'float16'


def train_with_amp(cfg: Config, dtype: str) -> None:
    """Let a config train in mixed precision."""
    cfg.optim_wrapper.update(type='AmpOptimWrapper', dtype=dtype)


def test_with_amp(cfg: Config, dtype: str) -> None:
    """Let a config test in mixed precision.

    Statistics, scores and metrics stay float32. mmengine's loop has no option
    for the type, so the default of torch is changed in this process.
    """
    _check(dtype)
    torch.set_autocast_dtype(get_device(), getattr(torch, dtype))
    cfg.test_cfg.fp16 = True


def amp_on_cpu(cfg: Config) -> None:
    """Replace ``AmpOptimWrapper``, which needs a GPU, on a CPU."""
    wrapper = cfg.optim_wrapper
    if wrapper.get('type') != 'AmpOptimWrapper' or get_device() != 'cpu':
        return
    _check(wrapper.get('dtype') or 'bfloat16')
    for name in ('dtype', 'loss_scale', 'use_fsdp'):
        wrapper.pop(name, None)
    wrapper.type = 'CPUAmpOptimWrapper'


def _check(dtype: str) -> None:
    if get_device() == 'cpu' and dtype != 'bfloat16':
        raise ValueError(f'{dtype} needs a GPU; on a CPU mixed precision is '
                         'bfloat16 (--amp bfloat16, or --amp alone).')
