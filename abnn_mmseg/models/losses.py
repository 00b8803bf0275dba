"""The MAP cross entropy with ABNN's random class prior."""
import math
from typing import Optional

import torch
import torch.nn.functional as F
from mmengine.dist import all_reduce
from mmseg.registry import MODELS
from torch import Tensor, nn

from abnn_mmseg.utils.choices import one_of

RULES = ('pair', 'sqrt', 'none')


def draw_eta(num_classes: int, rule: str, weight: float,
             seed: int) -> Tensor:
    """The random prior of one member: ``eta_c >= 0`` for each class.

    Args:
        num_classes (int): C.
        rule (str): How many distinct random classes are favoured: ``'pair'``
            two (the paper's scripts), ``'sqrt'`` ``int(sqrt(C))``
            (TorchUncertainty), ``'none'`` no class.
        weight (float): Weight ``1 + eta_c`` of a favoured class.
        seed (int): The member's seed.
    """
    count = dict(pair=min(2, num_classes), sqrt=math.isqrt(num_classes),
                 none=0)[rule]
    generator = torch.Generator().manual_seed(seed)
    favoured = torch.randperm(num_classes, generator=generator)[:count]
    eta = torch.zeros(num_classes)
    eta[favoured] = weight - 1
    return eta


@MODELS.register_module()
class RandomPriorCrossEntropyLoss(nn.Module):
    """Cross entropy in which class c weighs ``1 + eta_c``.

        loss = sum_i (1 + eta_{y_i}) * -log p(y_i | x_i) / N

    over the N pixels (of all processes) that are not ignored: the likelihood
    plus the paper's class-dependent random term. The other half of MAP, the
    Gaussian prior on gamma and beta, is the optimizer's weight decay.

    Args:
        num_classes (int): Number of classes.
        rule (str): See :func:`draw_eta`. Defaults to ``'sqrt'``.
        weight (float): Weight of the favoured classes; the paper's scripts
            use 7 with ``'pair'``. Defaults to 3.0.
        seed (int): Seed of eta; each member has its own. Defaults to 0.
        loss_weight (float): Weight of the loss. Defaults to 1.0.
        loss_name (str): Name in the log. Defaults to 'loss_ce'.
    """

    eta: Tensor

    def __init__(self,
                 num_classes: int,
                 rule: str = 'sqrt',
                 weight: float = 3.0,
                 seed: int = 0,
                 loss_weight: float = 1.0,
                 loss_name: str = 'loss_ce') -> None:
        super().__init__()
        if not weight >= 1:
            raise ValueError(
                f'weight={weight!r} of RandomPriorCrossEntropyLoss is the '
                'weight 1 + eta of a favoured class; write a number >= 1.')
        self.rule = one_of('rule', rule, RULES)
        self.weight = weight
        self.loss_weight = loss_weight
        self.loss_name = loss_name
        self.register_buffer('eta', draw_eta(num_classes, rule, weight, seed))

    def draw(self, seed: int) -> None:
        """Start another member: a new eta, in place."""
        self.eta.copy_(draw_eta(len(self.eta), self.rule, self.weight, seed))

    def forward(self,
                logits: Tensor,
                label: Tensor,
                weight: Optional[Tensor] = None,
                ignore_index: int = 255,
                **kwargs) -> Tensor:
        """Args as mmseg's losses; ``weight`` is a pixel sampler's."""
        loss = F.cross_entropy(
            logits, label, weight=(1 + self.eta).to(logits.dtype),
            reduction='none', ignore_index=ignore_index)
        if weight is not None:
            loss = loss * weight
        count = (label != ignore_index).sum().float()
        # DDP averages gradients over ranks, so the mean count makes them
        # those of one process with all the images.
        all_reduce(count, 'mean')
        return self.loss_weight * loss.sum() / count.clamp_min(1e-6)

    def _load_from_state_dict(self, state_dict, prefix, *args) -> None:
        """A checkpoint of the base network has no eta: keep the drawn one."""
        state_dict.setdefault(f'{prefix}eta', self.eta)
        super()._load_from_state_dict(state_dict, prefix, *args)
