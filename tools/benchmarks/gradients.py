"""Variance of the gradients: ABNN against a BNN with noise on every weight.

Both are the same trained network on the same images with the same loss. ABNN
draws its noise on gamma and has the gradient of gamma and beta. The classical
BNN (Bayes by Backprop) has a Gaussian on each convolution weight,
w = mu + softplus(rho) * eps, and the gradients of mu and rho; the KL term of
its loss has no noise, so it is left out of both. All take one draw an image;
a batch of B images divides every variance by B. Dropout is off.

With g the gradient of an image's loss, Var over the draws, then the mean over
the images, and sums over the parameters:

    total            sum Var(g): the expected squared error of a step
    per_parameter    the same, divided by the number of parameters
    scale_free       sum Var(g * r), r the layer's root mean square parameter
                     (sigma for rho): the gradient of a relative change
    noise_to_signal  sum Var(g) / sum E[g]^2, without units; none when the
                     draws are too few to tell E[g] from zero
"""
import argparse
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Callable, Optional

import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.registry import init_default_scope
from mmseg.registry import DATASETS
from torch import Tensor, nn

from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.models.bayesian_norm import bayesian_layers
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.console import progress

MEASURES = ('total', 'per_parameter', 'scale_free', 'noise_to_signal')
# Parameters by group: gradients and the scale of each layer.
Gradients = dict[str, list[tuple[Tensor, float]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py gradients``."""
    parser.add_argument(
        '--config', default='configs/abnn_deeplabv3plus_muad-sketch.py')
    parser.add_argument(
        '--checkpoint', help="base network (load_from, or the demo's)")
    parser.add_argument(
        '--data-root', help="dataset (the config's, or the demo's)")
    parser.add_argument(
        '--demo', default='work_dirs/demo', help='folder of `make demo`')
    parser.add_argument('--images', type=int, default=16)
    parser.add_argument('--draws', type=int, default=8)
    parser.add_argument(
        '--rho', type=float, default=-3.,
        help='of a BNN with one sigma = softplus(rho) for all weights')
    parser.add_argument('--device', default='cpu')


def run(args: argparse.Namespace) -> dict:
    """A row for each method and kind of parameter, and ABNN's ratios."""
    init_default_scope('mmseg')
    cfg = Config.fromfile(args.config)
    model = build_segmentor(cfg, _checkpoint(args, cfg), args.device)
    alpha = model.posterior.alpha
    images = list(_images(args, cfg, model))
    methods: dict[str, Callable[[dict], Gradients]] = {
        f'ABNN, alpha = {alpha}': _Gammas(model),
        f'BNN, rho = {args.rho:g}': _Weights(
            model, lambda w: math.log1p(math.exp(args.rho))),
        f'BNN, sigma = {alpha} rms(w)': _Weights(
            model, lambda w: alpha * _rms(w)),
    }
    results = {
        name: _measure(method, images, args.draws, name)
        for name, method in methods.items()
    }
    abnn, classical, equal = results.values()
    return dict(
        # ABNN's variance as a share of the BNN's, for its means mu.
        ratio_to_classical_bnn=_ratios(abnn, classical),
        ratio_to_bnn_with_equal_noise=_ratios(abnn, equal),
        gradients=[
            dict(method=name, parameters=group, **measures)
            for name, groups in results.items()
            for group, measures in groups.items()
        ],
        images=len(images), draws=args.draws)


def _ratios(abnn: dict, bnn: dict) -> dict[str, Optional[float]]:
    (ours, ), (theirs, *_) = abnn.values(), bnn.values()
    return {
        m: ours[m] / theirs[m] if ours[m] and theirs[m] else None
        for m in MEASURES
    }


class _Gammas:
    """ABNN's gradient of one image: its norms draw their own noise."""

    def __init__(self, model: BayesianSegmentor) -> None:
        self.model = model

    def __call__(self, data: dict) -> Gradients:
        _only(self.model, list(_trainable(self.model)))
        _backward(self.model, data)
        return {'gamma, beta': [(_gradient(p), _rms(p))
                                for p in _trainable(self.model)]}


class _Weights:
    """A mean-field BNN's gradient of one image, by reparametrization.

    As w = mu + sigma * eps and sigma = softplus(rho), the gradient of mu is
    that of w, and the gradient of rho is that of w times
    ``eps * sigmoid(rho)``.
    """

    def __init__(self, model: BayesianSegmentor,
                 sigma: Callable[[Tensor], float]) -> None:
        self.model = model
        self.weights = [m.weight for m in model.modules()
                        if isinstance(m, nn.modules.conv._ConvNd)]
        self.sigmas = [sigma(w.detach()) for w in self.weights]

    def __call__(self, data: dict) -> Gradients:
        _only(self.model, self.weights)
        means = [w.detach().clone() for w in self.weights]
        eps = [torch.randn_like(w) for w in means]
        with torch.no_grad(), _without_noise(self.model):
            for w, e, sigma in zip(self.weights, eps, self.sigmas):
                w += sigma * e
            try:
                with torch.enable_grad():
                    _backward(self.model, data)
            finally:
                for w, mean in zip(self.weights, means):
                    w.copy_(mean)
        # sigmoid(rho) = 1 - exp(-sigma)
        return {
            'mu': [(_gradient(w), _rms(w)) for w in self.weights],
            'rho': [(_gradient(w) * e * -math.expm1(-sigma), sigma)
                    for w, e, sigma in zip(self.weights, eps, self.sigmas)]
        }


class _without_noise:
    """Plain norms, while other parameters are random."""

    def __init__(self, model: BayesianSegmentor) -> None:
        layers = bayesian_layers(model)
        self.layers = [layers[name] for name in model.trainable]

    def __enter__(self) -> None:
        self.noise = [layer.noise for layer in self.layers]
        for layer in self.layers:
            layer.noise = None

    def __exit__(self, *_) -> None:
        for layer, noise in zip(self.layers, self.noise):
            layer.noise = noise


def _measure(method: Callable[[dict], Gradients], images: list[dict],
             draws: int, title: str) -> dict[str, dict]:
    sums: dict[str, dict[str, float]] = {}
    for i, data in enumerate(progress(images, title, len(images))):
        moments: dict[str, list] = {}
        for k in range(draws):
            torch.manual_seed(i * draws + k)
            for group, gradients in method(data).items():
                known = moments.setdefault(group, [
                    [torch.zeros_like(g, dtype=torch.float64),
                     torch.zeros_like(g, dtype=torch.float64), scale]
                    for g, scale in gradients])
                for (total, square, _), (g, _) in zip(known, gradients):
                    total += g
                    square += g.double().square()
        for group, known in moments.items():
            _add(sums.setdefault(group, dict.fromkeys(
                ('total', 'scale_free', 'signal', 'count'), 0.)), known, draws)
    return {
        group: dict(
            total=s['total'] / len(images),
            per_parameter=s['total'] / s['count'],
            scale_free=s['scale_free'] / len(images),
            noise_to_signal=(
                s['total'] / s['signal'] if s['signal'] > 0 else None))
        for group, s in sums.items()
    }


def _add(sums: dict[str, float], moments: list, draws: int) -> None:
    """Take in the moments of one image, unbiased."""
    for total, square, scale in moments:
        mean = total / draws
        variance = (square / draws - mean.square()) * draws / (draws - 1)
        sums['total'] += float(variance.sum())
        sums['scale_free'] += float(variance.sum()) * scale**2
        sums['signal'] += float((mean.square() - variance / draws).sum())
        sums['count'] += total.numel()


def _backward(model: BayesianSegmentor, data: dict) -> None:
    losses = model.loss(data['inputs'], data['data_samples'])
    sum(v for k, v in losses.items() if 'loss' in k).backward()


def _only(model: BayesianSegmentor, parameters: list[Tensor]) -> None:
    """Gradients for these and no others."""
    model.requires_grad_(False)
    model.zero_grad(set_to_none=True)
    for parameter in parameters:
        parameter.requires_grad_(True)


def _trainable(model: BayesianSegmentor) -> Iterator[Tensor]:
    for name in model.trainable:
        yield from model.get_submodule(name).parameters()


def _gradient(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _rms(value: Tensor) -> float:
    return float(value.detach().square().mean().sqrt())


def _images(args: argparse.Namespace, cfg: Config,
            model: BayesianSegmentor) -> Iterator[dict]:
    """Training images, one by one, on the device, with the model in train."""
    dataset = cfg.train_dataloader.dataset
    demo = Path(args.demo) / 'data'
    if args.data_root or (not Path(dataset.data_root).exists()
                          and demo.exists()):
        dataset.data_root = str(args.data_root or demo)
    torch.manual_seed(0)
    dataset = DATASETS.build(dataset)
    model.train()
    for module in model.modules():
        if isinstance(module, nn.modules.dropout._DropoutNd):
            module.eval()
    for i in range(min(args.images, len(dataset))):
        yield model.data_preprocessor(pseudo_collate([dataset[i]]), True)


def _checkpoint(args: argparse.Namespace, cfg: Config) -> str:
    demo = sorted(Path(args.demo, 'base').glob('iter_*.pth'))
    for path in (args.checkpoint, cfg.get('load_from'), *demo[-1:]):
        if path and (path == args.checkpoint or Path(path).is_file()):
            return str(path)
    raise FileNotFoundError(
        f'no trained network at load_from={cfg.get("load_from")!r} or in '
        f'{args.demo}/base; run `make demo`, or give --checkpoint and '
        '--data-root.')
