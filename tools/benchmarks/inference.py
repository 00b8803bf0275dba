"""Cost of K networks, as a ratio to one deterministic pass, and of memory."""
import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Callable, Optional

import torch
from torch import Tensor

from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.console import progress
from benchmarks import map_error
from benchmarks.memory import free_mb, in_process, peak_resident_mb
from benchmarks.networks import SCOPES, WAYS, attached, build, way

MANY = 64
CURVE = (2, 4, 8, 16, 32)
PARTS = ('time', 'memory', 'errors')


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
    parser.add_argument(
        '--parts', nargs='+', choices=PARTS, default=PARTS,
        help='what to measure; the JSON file keeps the other parts')
    parser.add_argument('--plot', help='PNG of cost and error against K')
    map_error.add_arguments(parser)


def run(args: argparse.Namespace) -> dict:
    """All measurements as a dict for JSON."""
    result = dict(
        height=args.size[0], width=args.size[1], draws=args.draws,
        threads=torch.get_num_threads(), device=args.device)
    if set(args.parts) != set(PARTS) and args.json and Path(
            args.json).is_file():
        result = {**json.loads(Path(args.json).read_text()), **result}
    measures = dict(
        time=time_part, memory=memory_part, errors=map_error.map_errors)
    for part in args.parts:
        result.update(measures[part](args))
    if args.plot:
        from benchmarks.plots import plot_inference
        plot_inference(result, args.plot)
    return result


def time_part(args: argparse.Namespace) -> dict:
    """Cost of every way, and of K draws by scope."""
    model = build(args.config, args.checkpoint, args.device)
    images = torch.randn(1, 3, *args.size, device=args.device)
    with torch.no_grad():
        one, ratios = time_all(model, images, args.draws, args.repeats)
        costs = cost_curve(model, images)
    return dict(
        deterministic_s=one, costs=costs,
        **{f'ratio_{name}': ratio for name, ratio in ratios.items()})


def memory_part(args: argparse.Namespace) -> dict:
    """Peak memory of every way, and the size of a bank."""
    memory = peaks(args)
    return dict(
        peak_mb=memory, bank_mb_m3_l8=bank_mb(args, 3, 8),
        **{f'peak_mb_k{row["draws"]}': row['all'] for row in memory})


def time_all(model: BayesianSegmentor, images: Tensor, draws: int,
             repeats: int) -> tuple[float, dict[str, float]]:
    """Seconds of a deterministic pass, and each way's ratio to it.

    Medians. The ways take turns, and each is measured against the passes just
    before and after it: the speed of a machine that others use drifts.
    """
    one = way('deterministic', model, images, 1)
    ways = {name: way(name, model, images, draws) for name in WAYS}
    ratios: dict[str, list[float]] = {name: [] for name in WAYS}
    one()
    passes = [seconds_of(one, images.device)]
    for _ in progress(range(repeats), 'Inference', repeats):
        for name, function in ways.items():
            spent = seconds_of(function, images.device)
            passes.append(seconds_of(one, images.device))
            ratios[name].append(spent / statistics.mean(passes[-2:]))
    return statistics.median(passes), {
        name: statistics.median(values) for name, values in ratios.items()
    }


def cost_curve(model: BayesianSegmentor, images: Tensor) -> list[dict]:
    """Cost of K draws by scope, each K next to a deterministic pass."""
    rows = []
    for draws in progress(CURVE, 'Cost by draws', len(CURVE)):
        one = seconds_of(way('deterministic', model, images, 1),
                         images.device)
        rows.append(dict(draws=draws, **{
            scope: seconds_of(way(scope, model, images, draws),
                              images.device) / one for scope in SCOPES
        }))
    return rows


def seconds_of(function: Callable, device: torch.device) -> float:
    start = time.perf_counter()
    function()
    if device.type == 'cuda':
        torch.cuda.synchronize(device)
    return time.perf_counter() - start


def peaks(args: argparse.Namespace) -> list[dict]:
    """Peak memory of each way with few and with many draws."""
    ways = ('deterministic', *WAYS)
    todo = [(draws, name) for draws in (args.draws, MANY) for name in ways]
    rows: dict[int, dict] = {}
    for draws, name in progress(todo, 'Peak memory', len(todo)):
        row = rows.setdefault(draws, dict(draws=draws))
        row[name] = in_process(peak_mb, args, name, draws)
    return list(rows.values())


def peak_mb(args: argparse.Namespace, name: str,
            draws: int) -> Optional[float]:
    """Peak of one prediction; None if the copies do not fit."""
    model = build(args.config, args.checkpoint, args.device)
    images = torch.randn(1, 3, *args.size, device=args.device)
    size = sum(p.nbytes for p in model.parameters()) / 2**20
    if name == 'copies' and size * draws > 0.7 * free_mb(args.device):
        return None
    with torch.no_grad():
        way(name, model, images, draws)()
    if args.device != 'cpu':
        return torch.cuda.max_memory_allocated(args.device) / 2**20
    return peak_resident_mb()


def bank_mb(args: argparse.Namespace, members: int, samples: int) -> float:
    """Size of the bank of M members with L draws."""
    model = build(args.config, args.checkpoint, args.device)
    posterior = attached(model, samples)
    own = {
        f'{name}.{key}': value for name, layer in posterior.layers.items()
        for key, value in layer.state_dict().items()
    }
    posterior.set_members([own] * members)
    return sum(tensor.nbytes for affine in posterior.bank().values()
               for tensor in affine) / 2**20
