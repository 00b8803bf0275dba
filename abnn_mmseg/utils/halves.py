"""Write weights in half precision."""
from pathlib import Path
from typing import Union

import torch

from abnn_mmseg.utils.checkpoints import map_state_dict
from abnn_mmseg.utils.files import atomic_path


def save_half(checkpoint: Union[str, Path], path: Union[str, Path]) -> None:
    """Write the weights of a checkpoint at about half their size.

    Tensors of two and more dimensions become float16. Vectors (norms,
    statistics and biases) keep their type. Optimizers, schedules and logs are
    left out.

    Args:
        checkpoint: A checkpoint of a whole network.
        path: The file to write.
    """
    state = {name: value.half() if value.is_floating_point()
             and value.ndim > 1 else value.clone()
             for name, value in map_state_dict(str(checkpoint)).items()}
    with atomic_path(path) as temporary:
        torch.save(dict(state_dict=state), temporary)
