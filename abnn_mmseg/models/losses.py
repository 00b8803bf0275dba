"""Cross entropy with ABNN's random class prior."""
import math
from collections.abc import Sequence
from typing import Optional, Union

import torch
import torch.nn.functional as F
from mmengine.dist import all_reduce
from mmseg.models.losses.utils import get_class_weight
from mmseg.registry import MODELS
from torch import Tensor, nn

from abnn_mmseg.compat import PreparesState
from abnn_mmseg.utils.choices import one_of

RULES = ('pair', 'sqrt', 'none')


def draw_eta(num_classes: int, rule: str, weight: float,
             seed: int) -> Tensor:
    """The random prior of one member: ``eta_c >= 0`` for each class.

    Args:
        num_classes (int): C.
        rule (str): Number of random classes that are favoured: ``'pair'`` is
            two (the paper's scripts), ``'sqrt'`` is ``int(sqrt(C))``
            (TorchUncertainty), ``'none'`` is zero.
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
class RandomPriorCrossEntropyLoss(PreparesState):
    """Cross entropy in which class c weighs ``1 + eta_c``.

        loss = sum_i (1 + eta_{y_i}) * w_{y_i} * -log p(y_i | x_i)
               / sum_i w_{y_i}

    over the pixels (of all processes) that are not ignored, with the class
    weights w, 1 by default: the likelihood plus the paper's class-dependent
    random term. The other half of MAP, the Gaussian prior on gamma and beta,
    is the optimizer's weight decay.

    Args:
        num_classes (int, optional): Number of classes. By default a Bayesian
            segmentor sets that of the head, see :func:`set_num_classes`.
        rule (str): See :func:`draw_eta`. Defaults to ``'sqrt'``.
        weight (float): Weight of the favoured classes; the paper's scripts
            use 7 with ``'pair'``. Defaults to 3.0.
        seed (int): Seed of eta; each member has its own. Defaults to 0.
        use_sigmoid (bool): Use the mean over the channels of the binary
            cross entropy, as mmseg's loss does. A head with one channel
            always uses it. Defaults to False.
        class_weight (Sequence[float] | str, optional): Weight of each class,
            or a file of weights, as in mmseg. For a head with one channel,
            one number is the weight of the foreground. Defaults to None.
        loss_weight (float): Weight of the loss. Defaults to 1.0.
        loss_name (str): Name in the log. Defaults to 'loss_ce'.
    """

    # None until the number of classes is known.
    eta: Tensor

    def __init__(self,
                 num_classes: Optional[int] = None,
                 rule: str = 'sqrt',
                 weight: float = 3.0,
                 seed: int = 0,
                 use_sigmoid: bool = False,
                 class_weight: Union[Sequence[float], str, None] = None,
                 loss_weight: float = 1.0,
                 loss_name: str = 'loss_ce') -> None:
        super().__init__()
        if not weight >= 1:
            raise ValueError(
                f'weight={weight!r} of RandomPriorCrossEntropyLoss is the '
                'weight 1 + eta of a favoured class; write a number >= 1.')
        self.rule = one_of('rule', rule, RULES)
        self.weight = weight
        self.seed = seed
        self.use_sigmoid = use_sigmoid
        self.class_weight = get_class_weight(class_weight)
        self.loss_weight = loss_weight
        self.loss_name = loss_name
        self.register_buffer('eta', None)
        if num_classes is not None:
            self.set_num_classes(num_classes)

    def set_num_classes(self, num_classes: int) -> None:
        """Draw eta for a number of classes, if it was not drawn before."""
        if self.eta is not None and len(self.eta) != num_classes:
            raise ValueError(
                f'num_classes={len(self.eta)} of RandomPriorCrossEntropyLoss, '
                f'but its head has {num_classes}; leave num_classes out of '
                'the loss.')
        weights = self.class_weight
        if weights is not None and len(weights) == 1 and num_classes == 2:
            self.class_weight = weights = [1., *weights]
        if weights is not None and len(weights) != num_classes:
            raise ValueError(
                'class_weight of RandomPriorCrossEntropyLoss has '
                f'{len(weights)} numbers for {num_classes} classes; write '
                'one for each class.')
        if self.eta is None:
            self.eta = draw_eta(
                num_classes, self.rule, self.weight, self.seed)

    def draw(self, seed: int) -> None:
        """Draw the eta of another member, in place."""
        self.seed = seed
        if self.eta is not None:
            self.eta.copy_(
                draw_eta(len(self.eta), self.rule, self.weight, seed))

    def forward(self,
                logits: Tensor,
                label: Tensor,
                weight: Optional[Tensor] = None,
                ignore_index: int = 255,
                reduction_override: Optional[str] = None,
                **kwargs) -> Tensor:
        """Compute the loss; arguments are those of mmseg's losses.

        A pixel sampler passes ``weight``, and ``reduction_override='none'``
        for the loss of each pixel.
        """
        loss = self._of_each_pixel(logits, label, ignore_index)
        if weight is not None:
            loss = loss * weight
        if reduction_override == 'none':
            return loss
        total = self._class_weight(logits)[label[label != ignore_index]].sum()
        # DDP averages gradients over ranks. With the mean total, they are
        # those of one process with all images.
        all_reduce(total, 'mean')
        return self.loss_weight * loss.sum() / total.clamp_min(1e-6)

    def _of_each_pixel(self, logits: Tensor, label: Tensor,
                       ignore_index: int) -> Tensor:
        """The weighted loss of each pixel, 0 where it is ignored."""
        channels = logits.shape[1]
        self._check_channels(channels)
        weight = (1 + self.eta) * self._class_weight(logits)
        if channels > 1 and not self.use_sigmoid:
            return F.cross_entropy(
                logits, label, weight=weight.to(logits.dtype),
                reduction='none', ignore_index=ignore_index)
        valid = label != ignore_index
        known = label * valid
        if known.max() >= len(weight):
            raise ValueError(
                f'a label is {int(known.max())}, but the head has '
                f'{len(weight)} classes; labels outside its classes '
                f'must be {ignore_index}.')
        target = (known[:, None] if channels == 1 else
                  F.one_hot(known, channels).movedim(-1, 1))
        loss = F.binary_cross_entropy_with_logits(
            logits, target.to(logits), reduction='none').mean(1)
        return loss * weight[known] * valid

    def _class_weight(self, logits: Tensor) -> Tensor:
        if self.class_weight is None:
            return torch.ones(len(self.eta), device=logits.device)
        return torch.as_tensor(
            self.class_weight, dtype=torch.float, device=logits.device)

    def _check_channels(self, channels: int) -> None:
        if self.eta is None:
            raise ValueError(
                'RandomPriorCrossEntropyLoss does not know the number of '
                'classes; use it in a Bayesian segmentor, or write its '
                'num_classes.')
        if channels != len(self.eta) and (channels, len(self.eta)) != (1, 2):
            raise ValueError(
                f'RandomPriorCrossEntropyLoss has {len(self.eta)} classes, '
                f'the logits have {channels} channels; leave num_classes out '
                'of the loss.')

    def prepare_state(self, state_dict: dict, prefix: str) -> None:
        """Keep the drawn eta if the checkpoint has none."""
        if self.eta is not None:
            state_dict.setdefault(f'{prefix}eta', self.eta)


def set_num_classes(model: nn.Module) -> None:
    """Set the number of classes of every random prior of a built model."""
    for head in model.modules():
        losses = getattr(head, 'loss_decode', None)
        num_classes = getattr(head, 'num_classes', None)
        if not isinstance(losses, nn.Module) or num_classes is None:
            continue
        if getattr(head, 'out_channels', None) == 1:
            # Foreground and background.
            num_classes = 2
        for loss in losses.modules():
            if isinstance(loss, RandomPriorCrossEntropyLoss):
                loss.set_num_classes(num_classes)
