"""Read configs, with a sentence for what is missing."""
from typing import Any

from mmengine.config import Config


def part_of(cfg: Config, key: str) -> Any:
    """What a config must have for a job, such as a dataloader."""
    if cfg.get(key) is None:
        raise ValueError(f'the config has no {key}; inherit from a dataset '
                         'config that has one, or write it.')
    return cfg[key]
