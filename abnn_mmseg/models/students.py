"""A student: a light head that says what a posterior would say.

It reads features and logits of one pass of the original network and gives the
four means of :class:`StreamingStatistics`, so every score is computed from a
student as from the networks it has learnt from. With z the logits of the
original network, H the entropy, S the sum of squares, and a, b, c, d what the
head puts out,

    probability       p = softmax(z + c)
    expected_entropy  H(p) * sigmoid(a)
    second_moment     S(p) + (1 - S(p)) * sigmoid(b)
    logits            z + d

which keeps mutual information and variance from being negative.
"""
from collections.abc import Sequence
from typing import Any, Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from abnn_mmseg.compat import tree_leaves
from abnn_mmseg.models.passes import handling, let_handle
from abnn_mmseg.uncertainty import StreamingStatistics

NAMES = StreamingStatistics.NAMES
# Batches in which the features' mean and variance are found.
CALIBRATION = 16
# Where outputs start, given that those of classes start at zero: members
# agree nearly everywhere.
START = dict(expected_entropy=3., second_moment=-5.)


class StudentHead(nn.Module):
    """The student of a posterior, for one original network.

    Args:
        channels (Sequence[int]): Of the features, see :func:`watch`.
        classes (int): C; two for a network with one channel.
        statistics (Sequence[str]): Means to give. Defaults to all.
        width (int): Channels within. Defaults to 64.
        networks (int): Of the posterior it learns from. Defaults to 2.
    """

    networks: Tensor
    # Lists of modules, whose items may be anything to a type checker.
    norms: Any
    projections: Any
    outputs: Any

    def __init__(self,
                 channels: Sequence[int],
                 classes: int,
                 statistics: Sequence[str] = NAMES,
                 width: int = 64,
                 networks: int = 2) -> None:
        super().__init__()
        # What the network itself says is a feature, too.
        sources = [*channels, classes + 1]
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(c, eps=1e-2, momentum=None, affine=False)
            for c in sources)
        self.projections = nn.ModuleList(
            nn.Conv2d(c, width, 1) for c in sources)
        self.near = nn.Conv2d(width, width, 3, padding=1)
        self.wide = nn.Conv2d(width, width, 3, padding=3, dilation=3)
        self.outputs = nn.ModuleDict({
            name: nn.Conv2d(width, classes if name in (
                'probability', 'logits') else 1, 1)
            for name in NAMES if name in statistics})
        for name, output in self.outputs.items():
            nn.init.zeros_(output.weight)
            nn.init.constant_(output.bias, START.get(name, 0.))
        # In the state dict, and as a number that graphs can hold.
        self.register_buffer('networks', torch.tensor(networks))
        self.count = networks

    @classmethod
    def of_state(cls, state: dict[str, Tensor]) -> 'StudentHead':
        """The head whose state dict this is."""
        count = sum(key.startswith('projections.') and key.endswith('weight')
                    for key in state)
        weights = [state[f'projections.{i}.weight'] for i in range(count)]
        head = cls([w.shape[1] for w in weights[:-1]],
                   weights[-1].shape[1] - 1,
                   [name for name in NAMES if f'outputs.{name}.bias' in state],
                   len(weights[0]), int(state['networks']))
        head.load_state_dict(state)
        return head.eval()

    @property
    def classes(self) -> int:
        """Number of classes, at least two."""
        return self.projections[-1].in_channels - 1

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the means it gives."""
        return tuple(self.outputs)

    def train(self, mode: bool = True):
        """Statistics of the features are found once, then kept."""
        super().train(mode)
        for norm in self.norms:
            norm.train(mode and int(norm.num_batches_tracked) < CALIBRATION)
        return self

    def forward(self, features: Sequence[Tensor], logits: Tensor) -> Tensor:
        """Args are those of :func:`watch`; the result has their size.

        It holds the parts of :meth:`means`, one after the other.
        """
        finest = max(features, key=lambda f: f.shape[2]).shape[2:]
        small = _resize(logits, finest)
        says = torch.cat([small.log_softmax(1),
                          small.logsumexp(1, keepdim=True)], 1)
        hidden = F.relu(torch.stack([
            _resize(project(norm(source)), finest)
            for norm, project, source in zip(
                self.norms, self.projections, [*features, says])]).sum(0))
        hidden = hidden + F.relu(self.near(hidden))
        hidden = hidden + F.relu(self.wide(hidden))
        parts = []
        for output in self.outputs.values():
            part = _resize(output(hidden).float(), logits.shape[2:])
            parts.append(logits + part if part.shape[1] > 1 else part)
        return torch.cat(parts, 1)

    def means(self, outputs: Tensor) -> dict[str, Tensor]:
        """The means in outputs ``[..., channels, H, W]``, by name."""
        sizes = [output.out_channels for output in self.outputs.values()]
        parts = dict(zip(self.outputs, outputs.float().split(sizes, -3)))
        probability = parts['probability'].softmax(-3)
        means = dict(probability=probability)
        if 'expected_entropy' in parts:
            entropy = torch.special.entr(probability.detach()).sum(-3)
            share = parts['expected_entropy'].squeeze(-3).sigmoid()
            means['expected_entropy'] = entropy * share
        if 'second_moment' in parts:
            square = probability.detach().square().sum(-3)
            share = parts['second_moment'].squeeze(-3).sigmoid()
            means['second_moment'] = square + (1 - square) * share
        if 'logits' in parts:
            means['logits'] = parts['logits']
        return means


def watch(model: Any, forward: Callable[[Tensor], Tensor],
          images: Tensor) -> tuple[list[Tensor], Tensor]:
    """Run a pass of a segmentor; keep what a student reads.

    That is what the backbone gives, and what the last classifier gets.

    Args:
        model (BayesianSegmentor): With a backbone.
        forward (Callable): Its pass, from images to outputs.
        images (Tensor): ``[B, C, H, W]``.

    Returns:
        tuple: The features ``[B, channels, h, w]``, and the outputs.
    """
    seen: dict[str, list[Tensor]] = {}
    backbone, classifier = _watched(model)

    def note_backbone(own, *args, **kwargs):
        """Keep the feature maps of the backbone."""
        given = own(*args, **kwargs)
        seen['backbone'] = _maps(given)
        return given

    def note_classifier(own, features, *args, **kwargs):
        """Keep the input of the classifier."""
        seen['classifier'] = _maps(features)
        return own(features, *args, **kwargs)

    handlers: dict = {backbone: note_backbone}
    if classifier is not None:
        handlers[classifier] = note_classifier
    let_handle(handlers)
    with handling(handlers):
        outputs = forward(images)
    features = seen.get('backbone', []) + seen.get('classifier', [])
    if not features:
        raise ValueError(
            f'the backbone {type(backbone).__name__} gives no feature maps '
            '[B, channels, h, w] that a student could read; distil a model '
            'with another backbone.')
    return features, outputs


def new_student(model: Any, images: Tensor, **options: Any) -> StudentHead:
    """A student that has learnt nothing, for the features of a segmentor.

    Args:
        model (BayesianSegmentor): In eval mode.
        images (Tensor): Preprocessed, to see the features' channels.
        **options: Of :class:`StudentHead`.
    """
    size = tuple(images.shape[2:])
    metas = [dict(ori_shape=size, img_shape=size, pad_shape=size)
             for _ in images]
    with torch.no_grad():
        features, outputs = watch(
            model, lambda x: model._logits(metas, x), images)
    return StudentHead([f.shape[1] for f in features],
                       as_classes(outputs).shape[1], **options).to(
                           images.device)


def as_classes(logits: Tensor) -> Tensor:
    """Logits of all classes; one channel is that of the second of two."""
    if logits.shape[1] > 1:
        return logits
    return torch.cat([torch.zeros_like(logits), logits], 1)


def _watched(model: Any) -> tuple:
    """The backbone, and the last head's classifier if it has one."""
    backbone = getattr(model, 'backbone', None)
    if backbone is None:
        raise ValueError(
            f'{type(model).__name__} has no backbone, whose features a '
            'student reads; distil an EncoderDecoder.')
    head = model.decode_head
    if isinstance(head, nn.ModuleList):
        head = head[-1]
    return backbone, getattr(head, 'conv_seg', None)


def _maps(values: Any) -> list[Tensor]:
    return [v for v in tree_leaves(values)
            if isinstance(v, Tensor) and v.dim() == 4]


def _resize(maps: Tensor, size: Sequence[int]) -> Tensor:
    if maps.shape[2:] == size:
        return maps
    return F.interpolate(maps, size=tuple(size), mode='bilinear',
                         align_corners=False)
