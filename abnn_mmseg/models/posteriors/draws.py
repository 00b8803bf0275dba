"""The noise of a posterior: all draws of all members, from one seed."""
from typing import Dict, List, Sequence

import torch
from torch import Size, Tensor


def draw_eps(shapes: Dict[str, Size], members: int, draws: int,
             antithetic: bool, seed: int) -> Dict[str, Tensor]:
    """Standard normal noise ``[M, L, *shape]`` for each layer.

    It is made on the CPU, so every device sees the same, and member by
    member, so another member does not change the draws of those before.

    Args:
        shapes (dict): Shape of gamma by layer.
        members (int): M.
        draws (int): L.
        antithetic (bool): Draw l + 1 is the opposite of draw l, for even l.
        seed (int): The seed.
    """
    generator = torch.Generator().manual_seed(seed)
    paired = antithetic and draws > 1
    eps: Dict[str, List[Tensor]] = {name: [] for name in shapes}
    for _ in range(members):
        for name, shape in shapes.items():
            count = draws // 2 if paired else draws
            noise = torch.randn((count, *shape), generator=generator)
            if paired:
                # Pairs stay together, so stopping early keeps them whole.
                noise = torch.stack([noise, -noise], 1).flatten(0, 1)
            eps[name].append(noise)
    return {name: torch.stack(values) for name, values in eps.items()}


def keep_best(eps: Dict[str, Tensor], nll: Sequence[Sequence[float]],
              count: int) -> Dict[str, Tensor]:
    """Of each member the draws that explain labelled images best.

    Args:
        eps (dict): Noise ``[M, N, *shape]`` by layer.
        nll (Sequence[Sequence[float]]): Negative log-likelihoods ``[M, N]``.
        count (int): Draws L to keep, in the order in which they were drawn.
    """
    order = torch.tensor(nll).argsort(dim=1, stable=True)
    best = order[:, :count].sort(1).values
    return {
        name: torch.stack([noise[m, kept] for m, kept in enumerate(best)])
        for name, noise in eps.items()
    }


def check_draws(samples: int, paired: bool, name: str = 'samples') -> None:
    """Refuse a number of draws that cannot be drawn."""
    if (isinstance(samples, bool) or not isinstance(samples, int)
            or samples < 1):
        raise ValueError(f'{name}={samples!r} is not a number of draws; '
                         f'write a positive integer such as {name}=8.')
    if paired and samples > 1 and samples % 2:
        raise ValueError(
            f'{name}={samples} is odd, but antithetic draws come in pairs; '
            f'write {name}={samples + 1} or antithetic=False.')
