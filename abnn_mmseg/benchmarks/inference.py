"""Cost of K networks, as a ratio to one deterministic pass, and of memory."""
import argparse
import copy
import multiprocessing
import statistics
import time
from typing import Callable, Dict, List

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmseg.registry import MODELS
from torch import Tensor, nn

from ..engine.loading import bayesian_model_cfg
from ..engine.members import load_base
from ..models.posteriors import BNLPosterior, DeterministicPosterior
from ..uncertainty import StreamingStatistics
from ..utils.console import progress
from .memory import peak_resident_mb

SCOPES = ('all', 'decode_head', 'late')
ERROR_DRAWS = (2, 4, 8, 16, 32, 64)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py inference``."""
    parser.add_argument(
        '--config', default='configs/abnn_deeplabv3plus_muad.py')
    parser.add_argument(
        '--checkpoint', help='trained weights (default: random ones)')
    parser.add_argument('--size', type=int, nargs=2, default=(256, 512),
                        metavar=('HEIGHT', 'WIDTH'))
    parser.add_argument('--draws', type=int, default=8)
    parser.add_argument('--repeats', type=int, default=5)
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--image', help='image for the map errors')
    parser.add_argument(
        '--error-size', type=int, nargs=2, default=(96, 192),
        metavar=('HEIGHT', 'WIDTH'), help='input of the map errors')
    parser.add_argument(
        '--reference', type=int, default=256, help='draws of the reference')
    parser.add_argument('--plot', help='PNG of cost and error against K')


def run(args: argparse.Namespace) -> dict:
    """All measurements as a dict for JSON."""
    model = build(args)
    images = torch.randn(1, 3, *args.size, device=args.device)
    with torch.no_grad():
        seconds = time_all(model, images, args.draws, args.repeats)
    one = seconds['deterministic']
    result = dict(
        height=args.size[0], width=args.size[1], draws=args.draws,
        threads=torch.get_num_threads(), device=args.device,
        deterministic_s=one,
        **{f'ratio_{name}': value / one
           for name, value in seconds.items() if name != 'deterministic'})
    for draws in (8, 64):
        result[f'peak_mb_k{draws}'] = peak_mb(args, draws)
    result['bank_mb_m3_l8'] = bank_mb(model, 3, 8)
    result['errors'] = map_errors(args)
    result['decoder_resolution_error'] = decoder_error(args)
    if args.plot:
        from .plots import plot_inference
        plot_inference(result, args.plot)
    return result


def build(args: argparse.Namespace) -> nn.Module:
    """The segmentor; random norms if there is no checkpoint."""
    cfg = Config.fromfile(args.config)
    init_default_scope('mmseg')
    torch.manual_seed(0)
    model = MODELS.build(bayesian_model_cfg(cfg)).to(args.device).eval()
    if args.checkpoint:
        load_base(model, args.checkpoint)
    else:
        # A classifier of all but zero weights would make all maps alike.
        nn.init.normal_(model.decode_head.conv_seg.weight, std=1.)
    return model


def time_all(model: nn.Module, images: Tensor, draws: int,
             repeats: int) -> Dict[str, float]:
    """Median seconds of each way, the ways taking turns."""
    ways = {'deterministic': lambda: predict(model, images,
                                             DeterministicPosterior())}
    for scope in SCOPES:
        posterior = attached(model, draws, scope=scope)
        ways[scope] = lambda p=posterior: predict(model, images, p)
    element = attached(model, draws, noise='element')
    ways['element'] = lambda: predict(model, images, element)
    ways['copies'] = deep_copies(model, images, draws)
    times: Dict[str, List[float]] = {name: [] for name in ways}
    predict(model, images, DeterministicPosterior())
    for _ in progress(range(repeats), 'Inference', repeats):
        for name, way in ways.items():
            times[name].append(seconds_of(way, images.device))
    return {name: statistics.median(t) for name, t in times.items()}


def seconds_of(function: Callable, device: torch.device) -> float:
    start = time.perf_counter()
    function()
    if device.type == 'cuda':
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def attached(model: nn.Module, draws: int, **options) -> BNLPosterior:
    posterior = BNLPosterior(alpha=0.1, samples=draws, **options)
    posterior.attach(model)
    return posterior


def predict(model: nn.Module, images: Tensor, posterior):
    model.posterior = posterior
    return model.predict(images)


def deep_copies(model: nn.Module, images: Tensor, draws: int) -> Callable:
    """The obvious way: K whole networks, their maps collected."""
    networks = [copy.deepcopy(model) for _ in range(draws)]
    metas = [dict(ori_shape=images.shape[2:], img_shape=images.shape[2:])]

    def run_copies():
        logits = torch.cat(
            [n.encode_decode(images, metas) for n in networks])
        collected = StreamingStatistics()
        collected.update(logits)
        return collected

    return run_copies


def peak_mb(args: argparse.Namespace, draws: int) -> float:
    """Peak memory of a prediction, in a process of its own."""
    context = multiprocessing.get_context('spawn')
    with context.Pool(1) as pool:
        return pool.apply(_peak, (args, draws))


def _peak(args: argparse.Namespace, draws: int) -> float:
    model = build(args)
    images = torch.randn(1, 3, *args.size, device=args.device)
    with torch.no_grad():
        predict(model, images, attached(model, draws))
    if args.device != 'cpu':
        return torch.cuda.max_memory_allocated(args.device) / 2**20
    return peak_resident_mb()


def bank_mb(model: nn.Module, members: int, samples: int) -> float:
    """Size of the bank of M members with L draws."""
    posterior = attached(model, samples)
    own = {
        f'{name}.{key}': value for name, layer in posterior.layers.items()
        for key, value in layer.state_dict().items()
    }
    posterior.set_members([own] * members)
    return sum((n.scale.nbytes + n.shift.nbytes)
               for n in posterior.bank().values()) / 2**20


@torch.no_grad()
def map_errors(args: argparse.Namespace) -> List[dict]:
    """Relative error of maps with K draws against a long reference.

    ``|map - reference| / |reference|`` in the 2-norm, averaged over four
    seeds other than the reference's; antithetic pairs and plain draws.
    """
    model, images = build(args), _image(args)
    model.scores = ('entropy', 'mutual_information')
    reference = predict(
        model, images, attached(model, args.reference, seed=999))[0]
    rows = []
    seeds = range(4)
    for draws in progress(ERROR_DRAWS, 'Map errors', len(ERROR_DRAWS)):
        for antithetic in (True, False):
            errors: Dict[str, list] = {score: [] for score in model.scores}
            for seed in seeds:
                sample = predict(model, images, attached(
                    model, draws, antithetic=antithetic, seed=seed))[0]
                for score in model.scores:
                    exact = reference.uncertainty.get(score)
                    error = sample.uncertainty.get(score) - exact
                    errors[score].append(
                        (error.norm() / exact.norm()).item())
            rows.append(dict(draws=draws, antithetic=antithetic, **{
                score: statistics.mean(values)
                for score, values in errors.items()
            }))
    return rows


@torch.no_grad()
def decoder_error(args: argparse.Namespace) -> dict:
    """Error and cost of ``resolution='decoder'`` against ``'full'``."""
    model, images = build(args), _image(args)
    model.scores = ('entropy', 'mutual_information')
    posterior = attached(model, args.draws, scope='late')
    maps, seconds = {}, {}
    for resolution in ('full', 'decoder', 'full', 'decoder'):
        model.resolution = resolution
        start = time.perf_counter()
        maps[resolution] = predict(model, images, posterior)[0].uncertainty
        seconds[resolution] = time.perf_counter() - start
    result = {'time_ratio_late': seconds['decoder'] / seconds['full']}
    for score in model.scores:
        full = maps['full'].get(score)
        error = maps['decoder'].get(score) - full
        result[score] = (error.norm() / full.norm()).item()
    return result


def _image(args: argparse.Namespace) -> Tensor:
    """A given image, normalized as the config says, or noise."""
    if not args.image:
        generator = torch.Generator().manual_seed(0)
        images = torch.randn(1, 3, *args.error_size, generator=generator)
        return images.to(args.device)
    import cv2
    image = cv2.imread(args.image)
    image = cv2.resize(image, tuple(args.error_size[::-1]))
    data = torch.from_numpy(image).permute(2, 0, 1)
    processed = build(args).data_preprocessor(
        dict(inputs=[data.to(args.device)]))
    return processed['inputs']
