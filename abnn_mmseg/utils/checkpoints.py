"""Read checkpoints without running code in their pickles."""
import os
import pickle
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Optional, Union

import numpy as np
import torch
from mmengine.logging import HistoryBuffer

from abnn_mmseg.compat import numpy_makers

# torch reads these when it loads: they forbid or allow pickles with code.
FORCE = ('TORCH_FORCE_WEIGHTS_ONLY_LOAD', 'TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD')


_known: ContextVar[Optional[dict]] = ContextVar(
    'abnn_mmseg_checkpoints', default=None)


def _history_buffer_method(owner: Any, name: str) -> Any:
    """Stands in for ``getattr``, which mmengine's log buffers pickle."""
    if isinstance(owner, HistoryBuffer) or owner is HistoryBuffer:
        return getattr(owner, name)
    raise pickle.UnpicklingError(f'getattr of {owner!r} is not allowed')


def allow_checkpoints() -> None:
    """Let torch read what is in mmengine's checkpoints beside tensors.

    That is numpy arrays and log buffers, and no other code. With mmengine up
    to 0.10.7 and torch from 2.6 on, mmseg's own tools cannot read their own
    checkpoints without this.
    """
    dtypes = {type(np.dtype(t)) for t in ('u1', 'u4', 'i4', 'i8', 'f4', 'f8')}
    torch.serialization.add_safe_globals([
        *numpy_makers(), np.ndarray, np.dtype,
        HistoryBuffer, slice, (_history_buffer_method, 'builtins.getattr'),
        *dtypes
    ])


@contextmanager
def safe_globals() -> Iterator[None]:
    """A context in which torch reads mmengine's checkpoints safely.

    Besides tensors they hold numpy arrays and log buffers. Pickles with other
    code are refused, even if the caller allows them, as a fork of mmengine
    does after a first refusal.
    """
    # At its end, torch's own context would also remove what an outer one had
    # allowed.
    before = torch.serialization.get_safe_globals()
    environment = {name: os.environ.pop(name, None) for name in FORCE}
    os.environ[FORCE[0]] = '1'
    allow_checkpoints()
    try:
        yield
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)
        for name, value in environment.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def reading_once() -> Iterator[None]:
    """A context in which each unchanged file is read once.

    The contents stay in memory until the context ends.
    """
    token = _known.set({} if _known.get() is None else _known.get())
    try:
        yield
    finally:
        _known.reset(token)


def read_checkpoint(path: Union[str, Path], mmap: bool = False) -> dict:
    """The content of a checkpoint on the CPU.

    Args:
        path (str): The file.
        mmap (bool): Map the file, so that its tensors are read when they are
            used. Then they are not checked for damage. Defaults to False.

    Raises:
        FileNotFoundError: If there is no file.
        ValueError: If it is damaged, or not a checkpoint.
    """
    path = Path(path)
    known = _known.get()
    if known is None or not path.is_file():
        return _read(path, mmap)
    stat = path.stat()
    key = (path.resolve(), stat.st_ino, stat.st_size, stat.st_mtime_ns)
    if (*key, False) not in known and (*key, mmap) not in known:
        known[(*key, mmap)] = _read(path, mmap)
    # Content that was read completely is used instead of a mapping.
    return dict(known.get((*key, False)) or known[(*key, mmap)])


def _read(path: Path, mmap: bool) -> dict:
    if not path.is_file():
        what = 'is a folder' if path.is_dir() else 'does not exist'
        raise FileNotFoundError(
            f'{path} {what}; give a checkpoint or member file.')
    # A file that may not be read is not damaged.
    path.open('rb').close()
    try:
        with safe_globals():
            content = torch.load(
                path, map_location='cpu', weights_only=True,
                # Files older than torch 1.6 cannot be mapped.
                mmap=mmap and zipfile.is_zipfile(path))
    except Exception as error:  # damaged bytes cause any error
        raise ValueError(
            f'{path} cannot be read as a checkpoint '
            f'({_first_sentence(error)}); it is truncated, or holds more '
            'than tensors: copy or save it again.') from error
    if not mmap:
        check_intact(path)
    if not isinstance(content, dict):
        raise ValueError(f'{path} holds a {type(content).__name__}, not a '
                         'checkpoint; save a state dict.')
    return content


def check_intact(path: Union[str, Path]) -> None:
    """Raise ValueError if a checksum in a checkpoint is wrong.

    torch stores checksums but does not verify them. Files older than torch
    1.6 have none.
    """
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            damaged = archive.testzip()
    except Exception as error:  # damaged bytes cause any error
        damaged = str(error)
    if damaged is not None:
        raise ValueError(f'{path} is damaged: a checksum in it is wrong '
                         f'({damaged}); copy or save it again.')


def read_state_dict(path: Union[str, Path]) -> dict:
    """The weights in a checkpoint, in float32, without DDP's prefix."""
    return {
        key: value.float() if value.is_floating_point() else value
        for key, value in _state_dict(read_checkpoint(path), path).items()
    }


def map_state_dict(path: Union[str, Path]) -> dict:
    """The weights in a checkpoint, mapped, in their own types."""
    return _state_dict(read_checkpoint(path, mmap=True), path)


def _state_dict(content: dict, path: Union[str, Path]) -> dict:
    state = content.get('state_dict', content)
    if not isinstance(state, dict):
        raise ValueError(f'{path} has a {type(state).__name__} where its '
                         'state_dict should be; save the model again.')
    return {
        key.removeprefix('module.'): value
        for key, value in state.items()
        if isinstance(key, str) and is_plain_tensor(value)
    }


def is_plain_tensor(value: Any) -> bool:
    """Whether a value is an ordinary dense tensor on the CPU."""
    return (isinstance(value, torch.Tensor) and not value.is_quantized
            and not value.is_complex() and value.layout == torch.strided
            and value.device.type == 'cpu')


def bytes_of(value: torch.Tensor) -> Any:
    """The bytes of a tensor, for a digest."""
    flat = value.detach().cpu().contiguous().view(-1)
    return flat.view(torch.uint8).numpy()


def is_counter(name: str) -> bool:
    """Whether a tensor is a count of batches; old checkpoints lack it."""
    return name.endswith('num_batches_tracked')


def is_prior(name: str) -> bool:
    """Whether a tensor is the random class prior of a loss.

    It belongs to the training of one member, not to the network.
    """
    return name.endswith('.eta')


def is_same_state(one: Mapping[str, torch.Tensor],
                  other: Mapping[str, torch.Tensor]) -> bool:
    """Whether all tensors of two states are equal."""
    return one.keys() == other.keys() and all(
        value.dtype == other[name].dtype and torch.equal(value, other[name])
        for name, value in one.items())


def check_surplus(state: Iterable[str], own: Iterable[str],
                  path: Union[str, Path]) -> None:
    """Raise if a checkpoint has more layers than the model that takes it.

    The first blocks of a deeper network would fit a shallower one. Whole
    parts that the model lacks, such as auxiliary heads, are allowed.

    Args:
        state (Iterable[str]): Names of the checkpoint's tensors.
        own (Iterable[str]): Names of the model's tensors.
        path (str): The checkpoint.
    """
    known = set(own)
    parts = {name.split('.')[0] for name in known}
    unused = [name for name in state
              if name.endswith('.weight') and name not in known
              and name.split('.')[0] in parts]
    if unused:
        raise ValueError(
            f'{path} is a larger network than the model: {len(unused)} of '
            f'its layers have no place, such as {unused[0]}; use the config '
            'it was trained with.')


def check_weights(state: Mapping[str, torch.Tensor], place: str) -> None:
    """Raise if weights are not finite, or a variance is negative.

    Args:
        state (Mapping): Tensors by state-dict name.
        place (str): Where they are, for the message, such as a file.
    """
    for name, value in state.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise ValueError(
                f'{place} holds NaN or inf, first in {name}; load weights '
                'of a training that did not diverge.')
        if name.endswith('running_var') and (value < 0).any():
            raise ValueError(
                f'{place} holds a negative variance, in {name}; it is '
                'damaged: copy it again, or load another one.')


def _first_sentence(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].split('. ')[0] if lines else type(error).__name__
