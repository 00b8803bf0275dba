"""A student: one pass that predicts the statistics of a posterior.

It predicts the four means of :class:`StreamingStatistics`, so every score is
computed from a student as from a posterior. A small head reads features and
logits of the pass. With z these logits, H the entropy, S the sum of squares,
p the probability, and a, b, c, d the outputs of the head,

    expected_entropy  H(p) * sigmoid(a)
    second_moment     S(p) + (1 - S(p)) * sigmoid(b)

so mutual information and variance cannot be negative. There are two designs:

    'norms'  The pass is that of a network with norm parameters of its own:
             p = softmax(z), and the logits are z.
    'head'   The pass is that of the original network:
             p = softmax(z + c), and the logits are z + d.
"""
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Callable, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from abnn_mmseg.models.architectures import AUXILIARY_HEAD
from abnn_mmseg.models.bayesian_norm import (
    BayesianNorm,
    Network,
    bayesian_layers,
)
from abnn_mmseg.models.passes import Handler, handling
from abnn_mmseg.models.student_features import watch
from abnn_mmseg.uncertainty.statistics import (
    StreamingStatistics,
    as_classes,
)
from abnn_mmseg.utils.choices import one_of

NAMES = StreamingStatistics.NAMES
# The means that have a value for each class.
OF_CLASSES = ('probability', 'logits')
DESIGNS = ('norms', 'head')
# Prefix of a student's own norms in its state dict.
NETWORK = 'network.'
# Number of batches over which mean and variance of the features are averaged.
CALIBRATION = 16
# First values of outputs that do not start at zero: nearly no disagreement.
START = dict(expected_entropy=3., second_moment=-5.)


class StudentNorms(nn.Module):
    """Norm parameters that make another network of a segmentor.

    Args:
        state (dict): The parameters, by their names in the segmentor.
    """

    def __init__(self, state: dict[str, Tensor]) -> None:
        super().__init__()
        for name, value in state.items():
            # A parameter's name may not hold a point.
            self.register_parameter(
                name.replace('.', '/'), nn.Parameter(value.clone()))

    @classmethod
    def of_model(cls, model: nn.Module) -> 'StudentNorms':
        """The norms that a segmentor has, but for its auxiliary heads."""
        return cls({
            f'{name}.{key}': value.detach()
            for name, layer in bayesian_layers(model).items()
            if not name.startswith(AUXILIARY_HEAD)
            for key, value in layer.named_parameters()
        })

    def handlers(self, model: nn.Module) -> dict[nn.Module, Handler]:
        """What runs the layers of a segmentor with these parameters."""
        own = {name.replace('/', '.'): value
               for name, value in self.named_parameters()}
        return {
            layer: partial(layer.as_network, _folded(layer, name, own))
            for name, layer in bayesian_layers(model).items()
            if f'{name}.weight' in own
        }


def _folded(layer: BayesianNorm, name: str,
            own: Mapping[str, Tensor]) -> Network:
    """Scale and shift of a layer with parameters of its own."""
    tensors = {
        key: own.get(f'{name}.{key}', getattr(layer, key))
        for key in layer.FOLDED if getattr(layer, key) is not None
    }
    one = torch.ones_like(layer.weight, requires_grad=False)
    return Network(*layer.fold(tensors, one, layer.fold_eps * one))


class Student(nn.Module):
    """The student of a posterior, for one original network.

    Args:
        channels (Sequence[int]): Channels of the features, see :func:`watch`.
        classes (int): C; two for a network with one channel.
        statistics (Sequence[str]): Means to predict. Defaults to all.
        width (int): Hidden channels of the head. Defaults to 64.
        networks (int): Number of networks of the teacher. Defaults to 2.
        network (StudentNorms, optional): The student's own norms, for the
            design 'norms'. Defaults to None, the design 'head'.
    """

    networks: Tensor
    # Lists of modules, whose items have no type.
    norms: Any
    projections: Any
    outputs: Any

    def __init__(self,
                 channels: Sequence[int],
                 classes: int,
                 statistics: Sequence[str] = NAMES,
                 width: int = 64,
                 networks: int = 2,
                 network: Optional[StudentNorms] = None) -> None:
        super().__init__()
        self.network = network
        # The network's own output is used as a feature, too.
        sources = [*channels, classes + 1]
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(c, eps=1e-2, momentum=None, affine=False)
            for c in sources)
        self.projections = nn.ModuleList(
            nn.Conv2d(c, width, 1) for c in sources)
        self.near = nn.Conv2d(width, width, 3, padding=1)
        self.wide = nn.Conv2d(width, width, 3, padding=3, dilation=3)
        self.outputs = nn.ModuleDict({
            name: nn.Conv2d(width, classes if name in OF_CLASSES else 1, 1)
            for name in NAMES if name in statistics
            and (network is None or name not in OF_CLASSES)})
        for name, output in self.outputs.items():
            nn.init.zeros_(output.weight)
            nn.init.constant_(output.bias, START.get(name, 0.))
        # A buffer for the state dict, and a number for graphs.
        self.register_buffer('networks', torch.tensor(networks))
        self.count = networks

    @classmethod
    def of_state(cls, state: dict[str, Tensor]) -> 'Student':
        """The student with this state dict."""
        count = sum(key.startswith('projections.') and key.endswith('weight')
                    for key in state)
        weights = [state[f'projections.{i}.weight'] for i in range(count)]
        norms = {key.removeprefix(NETWORK): value
                 for key, value in state.items() if key.startswith(NETWORK)}
        student = cls([w.shape[1] for w in weights[:-1]],
                      weights[-1].shape[1] - 1,
                      [n for n in NAMES if f'outputs.{n}.bias' in state],
                      len(weights[0]), int(state['networks']),
                      StudentNorms(norms) if norms else None)
        student.load_state_dict(state)
        return student.eval()

    @property
    def classes(self) -> int:
        """Number of classes, at least two."""
        return self.projections[-1].in_channels - 1

    @property
    def design(self) -> str:
        """One of ``DESIGNS``."""
        return 'head' if self.network is None else 'norms'

    @property
    def statistics(self) -> tuple[str, ...]:
        """Names of the predicted means."""
        given = () if self.network is None else OF_CLASSES
        return tuple(n for n in NAMES if n in given or n in self.outputs)

    def train(self, mode: bool = True):
        """Keep the statistics of features after the first batches."""
        super().train(mode)
        for norm in self.norms:
            norm.train(mode and int(norm.num_batches_tracked) < CALIBRATION)
        return self

    def watch(self, model: Any, forward: Callable[[Tensor], Tensor],
              images: Tensor) -> tuple[list[Tensor], Tensor]:
        """Run the student's pass of a segmentor, see :func:`watch`."""
        handlers = {} if self.network is None else self.network.handlers(
            model)
        with handling(handlers):
            return watch(model, forward, images)

    def forward(self, features: Sequence[Tensor], logits: Tensor) -> Tensor:
        """Predict from the results of :func:`watch`.

        Returns:
            Tensor: The parts of :meth:`means`, ``[B, channels, H, W]``, in the
            size of the logits.
        """
        parts = [] if self.network is None else [logits]
        hidden = self._hidden(features, logits.detach())
        for output in self.outputs.values():
            part = _resize(output(hidden).float(), logits.shape[2:])
            parts.append(logits + part if part.shape[1] > 1 else part)
        return torch.cat(parts, 1)

    def _hidden(self, features: Sequence[Tensor], logits: Tensor) -> Tensor:
        """The last features of the head, at the size of the finest."""
        finest = max(features, key=lambda f: f.shape[2]).shape[2:]
        small = _resize(logits, finest)
        own = torch.cat([small.log_softmax(1),
                         small.logsumexp(1, keepdim=True)], 1)
        dtype = self.near.weight.dtype
        hidden = F.relu(torch.stack([
            _resize(project(norm(source.to(dtype))), finest)
            for norm, project, source in zip(
                self.norms, self.projections, [*features, own])]).sum(0))
        hidden = hidden + F.relu(self.near(hidden))
        return hidden + F.relu(self.wide(hidden))

    def means(self, outputs: Tensor) -> dict[str, Tensor]:
        """The means by name, from outputs ``[..., channels, H, W]``."""
        sizes = {name: output.out_channels
                 for name, output in self.outputs.items()}
        if self.network is not None:
            sizes = dict(logits=self.classes, **sizes)
        parts = dict(zip(sizes, outputs.float().split(
            list(sizes.values()), -3)))
        source = 'logits' if self.network is not None else 'probability'
        probability = parts[source].softmax(-3)
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


def new_student(model: Any, images: Tensor, design: str = 'head',
                **options: Any) -> Student:
    """An untrained student for the features of a segmentor.

    Args:
        model (BayesianSegmentor): In eval mode.
        images (Tensor): Preprocessed images, to find the channels of the
            features.
        design (str): One of ``DESIGNS``. Defaults to 'head'.
        **options: See :class:`Student`.
    """
    metas = [dict(img_shape=tuple(images.shape[2:]))] * len(images)
    with torch.no_grad():
        features, outputs = watch(
            model, lambda x: model.head_outputs(metas, x), images)
    network = None
    if one_of('design', design, DESIGNS) == 'norms':
        network = StudentNorms.of_model(model)
    return Student([f.shape[1] for f in features],
                   as_classes(outputs).shape[1], network=network,
                   **options).to(images.device)


def _resize(maps: Tensor, size: Sequence[int]) -> Tensor:
    if maps.shape[2:] == size:
        return maps
    return F.interpolate(maps, size=tuple(size), mode='bilinear',
                         align_corners=False)
