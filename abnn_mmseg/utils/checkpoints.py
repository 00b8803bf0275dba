"""Read checkpoints without running what a pickle may hold."""
import pickle
from pathlib import Path
from typing import Any, Union

import numpy as np
import torch
from mmengine.logging import HistoryBuffer


def _history_buffer_method(owner: Any, name: str) -> Any:
    """Stands in for ``getattr``, which mmengine's log buffers pickle."""
    if isinstance(owner, HistoryBuffer) or owner is HistoryBuffer:
        return getattr(owner, name)
    raise pickle.UnpicklingError(f'getattr of {owner!r} is not allowed')


def safe_globals():
    """A context in which torch reads mmengine's checkpoints safely.

    Besides tensors they hold numpy arrays and log buffers, nothing that runs
    code of its own.
    """
    multiarray = (np._core if hasattr(np, '_core') else np.core).multiarray
    dtypes = {type(np.dtype(t)) for t in ('u1', 'u4', 'i4', 'i8', 'f4', 'f8')}
    return torch.serialization.safe_globals([
        multiarray._reconstruct, multiarray.scalar, np.ndarray, np.dtype,
        HistoryBuffer, slice, (_history_buffer_method, 'builtins.getattr'),
        *dtypes
    ])


def read_checkpoint(path: Union[str, Path], mmap: bool = False) -> dict:
    """The content of a checkpoint on the CPU, or a sentence.

    With ``mmap`` its tensors stay in the file until they are used.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(
            f'{path} does not exist; give a checkpoint or member file.')
    try:
        with safe_globals():
            content = torch.load(
                path, map_location='cpu', weights_only=True, mmap=mmap)
    except Exception as error:  # torch raises whatever the bytes provoke
        raise ValueError(
            f'{path} cannot be read as a checkpoint '
            f'({_first_sentence(error)}); it is truncated, or holds more '
            'than tensors: copy or save it again.') from error
    if not isinstance(content, dict):
        raise ValueError(f'{path} holds a {type(content).__name__}, not a '
                         'checkpoint; save a state dict.')
    return content


def read_state_dict(path: Union[str, Path]) -> dict:
    """The weights in a checkpoint, in float32, without DDP's prefix."""
    return {
        key: value.float() if value.is_floating_point() else value
        for key, value in _state_dict(read_checkpoint(path)).items()
    }


def map_state_dict(path: Union[str, Path]) -> dict:
    """The weights in a checkpoint, in their types, left in the file."""
    return _state_dict(read_checkpoint(path, mmap=True))


def _state_dict(content: dict) -> dict:
    state = content.get('state_dict', content)
    return {
        key.removeprefix('module.'): value
        for key, value in state.items() if isinstance(value, torch.Tensor)
    }


def _first_sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].split('. ')[0] if lines else type(error).__name__
