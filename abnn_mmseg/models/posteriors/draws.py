"""The noise of a posterior: all draws of all members, from one seed."""

import torch
from torch import Size, Tensor


def draw_eps(shapes: dict[str, Size], members: int, draws: int,
             antithetic: bool, seed: int) -> dict[str, Tensor]:
    """Standard normal noise ``[M, L, *shape]`` for each layer.

    It is drawn on the CPU, so it is the same for every device, and member by
    member, so more members do not change the draws of the first ones.

    Args:
        shapes (dict): Shape of gamma by layer.
        members (int): M.
        draws (int): L.
        antithetic (bool): Draw l + 1 is the opposite of draw l, for even l.
        seed (int): The seed.
    """
    generator = torch.Generator().manual_seed(seed)
    paired = antithetic and draws > 1
    eps: dict[str, list[Tensor]] = {name: [] for name in shapes}
    for _ in range(members):
        for name, shape in shapes.items():
            count = draws // 2 if paired else draws
            noise = torch.randn((count, *shape), generator=generator,
                                dtype=torch.float32)
            if paired:
                # Pairs stay together, so stopping early keeps them whole.
                noise = torch.stack([noise, -noise], 1).flatten(0, 1)
            eps[name].append(noise)
    return {name: torch.stack(values) for name, values in eps.items()}


def check_count(name: str, value: int, otherwise: str) -> None:
    """Raise ValueError unless a setting is an integer of at least 1.

    Args:
        name (str): Name of the setting.
        value (int): Its value.
        otherwise (str): The alternative to a number, for the message.
    """
    if (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f'{name}={value!r} of the posterior must be an '
                         f'integer of at least 1, or {otherwise}.')


def check_seed(seed: int) -> None:
    """Raise ValueError unless torch's generators take the seed."""
    if (isinstance(seed, bool) or not isinstance(seed, int)
            or not -2**63 <= seed < 2**63):
        raise ValueError(f'seed={seed!r} of the posterior must be an integer '
                         'such as seed=0.')


def check_draws(samples: int, paired: bool) -> None:
    """Raise ValueError for an impossible number of draws."""
    check_count('samples', samples, 'left out')
    if paired and samples > 1 and samples % 2:
        raise ValueError(
            f'samples={samples} is odd, but antithetic draws come in pairs; '
            f'write samples={samples + 1} or antithetic=False.')
