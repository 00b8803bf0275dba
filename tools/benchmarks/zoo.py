"""MMSegmentation's models made Bayesian: norms, trainable share, cost."""
import argparse
import statistics
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Callable

import torch
from mmengine.registry import init_default_scope
from mmseg.registry import MODELS

from abnn_mmseg.deploy.onnx import export_program, save_onnx
from abnn_mmseg.models.posteriors import DeterministicPosterior
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.console import progress
from abnn_mmseg.utils.files import atomic_write
from benchmarks.inference import seconds_of
from benchmarks.networks import attached, predict
from benchmarks.zoo_models import ZOO, bayesian, model_config, what_is_missing

SCOPES = ('all', 'decode_head')
MARK = '<!-- table -->'


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py zoo``."""
    parser.add_argument('--models', nargs='+', choices=list(ZOO),
                        default=list(ZOO), metavar='NAME')
    parser.add_argument('--size', type=int, nargs=2, default=(128, 128),
                        metavar=('HEIGHT', 'WIDTH'))
    parser.add_argument('--draws', type=int, default=8)
    parser.add_argument('--repeats', type=int, default=3)
    parser.add_argument('--device', default='cpu')
    parser.add_argument(
        '--onnx', action='store_true',
        help='also write each model, with two networks, as an ONNX file')
    parser.add_argument(
        '--markdown', help=f'page whose part after {MARK} is replaced')


def run(args: argparse.Namespace) -> dict:
    """A row a model, for JSON and for a page."""
    init_default_scope('mmseg')
    rows = []
    for name in progress(args.models, 'Zoo', len(args.models)):
        missing = what_is_missing(name)
        rows.append(dict(model=name, missing=missing) if missing else dict(
            model=name, **measure(name, args)))
    if args.markdown:
        write_page(Path(args.markdown), rows, args)
    return dict(draws=args.draws, height=args.size[0], width=args.size[1],
                threads=torch.get_num_threads(), device=args.device,
                zoo=rows)


def measure(name: str, args: argparse.Namespace) -> dict:
    """Norms, trainable share, and cost of one model at its full width."""
    torch.manual_seed(0)
    cfg = bayesian(model_config(name), alpha=0.1, samples=args.draws)
    if cfg.type.startswith('BayesianMultimodal'):
        # Class names are encoded once and kept, with one phrase or fourteen.
        cfg.text_encoder.templates = ['a photo of a {}.']
    model = MODELS.build(cfg).to(args.device).eval()
    parameters = list(model.parameters())
    total = sum(p.numel() for p in parameters)
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    with torch.no_grad():
        costs = cost_ratios(model, args)
    if args.onnx:
        costs['onnx'] = onnx_support(model)
    return dict(
        norms=describe_norms(model), parameters_m=total / 1e6,
        trained_percent=100 * trained / total, **costs)


def onnx_support(model: BayesianSegmentor) -> str:
    """Whether a model can be one ONNX file: yes, or why not."""
    model.posterior = attached(model, 2)
    with TemporaryDirectory() as folder:
        try:
            save_onnx(export_program(model), model, f'{folder}/model.onnx')
        except (ValueError, RuntimeError) as error:
            return f'no: {str(error).splitlines()[0]}'
    return 'yes'


def describe_norms(model: BayesianSegmentor) -> str:
    """Such as "12/24 layer (12 inside a frozen text encoder)"."""
    report = model.conversion
    found = Counter(report.families.values())
    converted = Counter(report.converted.values())
    text = ', '.join(f'{converted[f]}/{n} {f}' for f, n in found.items())
    reasons = Counter(report.left.values())
    why = ', '.join(f'{n} {reason}' for reason, n in reasons.items())
    return f'{text} ({why})' if why else text


def cost_ratios(model: BayesianSegmentor, args: argparse.Namespace) -> dict:
    """Median cost of all draws over that of one pass, taking turns."""
    images = torch.randn(1, 3, *args.size, device=args.device)
    posteriors: dict[str, Any] = {'one': DeterministicPosterior()}
    for scope in SCOPES:
        try:
            posteriors[scope] = attached(model, args.draws, scope=scope)
        except ValueError:  # a head without norms
            continue
    times: dict[str, list[float]] = {name: [] for name in posteriors}
    for i in range(args.repeats + 1):
        for name, posterior in posteriors.items():
            seconds = _seconds(lambda p=posterior: predict(model, images, p),
                               images.device)
            if i:  # the first turn warms up
                times[name].append(seconds)
    median = {name: statistics.median(t) for name, t in times.items()}
    return dict(
        one_pass_s=median['one'],
        one_by_one=posteriors['all'].one_by_one,
        **{f'ratio_{name}': median[name] / median['one']
           for name in SCOPES if name in median})


def _seconds(function: Callable, device: torch.device) -> float:
    """Processor time on a CPU, so that other programs do not count."""
    if device.type != 'cpu':
        return seconds_of(function, device)
    start = time.process_time()
    function()
    return time.process_time() - start


def write_page(path: Path, rows: list[dict], args: argparse.Namespace) -> None:
    """Put the table into a page, after what was written by hand."""
    text = path.read_text().partition(MARK)[0] if path.is_file() else ''
    height, width = args.size
    lines = [
        f'{args.draws} draws, {height}x{width}, {args.device}, '
        f'{torch.get_num_threads()} threads, torch {torch.__version__}.', '',
        '| model | norms converted/found | parameters | trained | cost, '
        '`all` | cost, `decode_head` | ONNX |',
        '|---|---|---|---|---|---|---|'
    ]
    lines += [f'| {" | ".join(_cells(row))} |' for row in rows]
    atomic_write(path, f'{text}{MARK}\n\n' + '\n'.join(lines) + '\n')


def _cells(row: dict) -> list[str]:
    if row.get('missing'):
        return [row['model'], f'not built: {row["missing"]}', *['-'] * 5]
    ratios = [
        f'{row[f"ratio_{scope}"]:.1f}' if f'ratio_{scope}' in row else
        'no norms' for scope in SCOPES
    ]
    star = '\\*' if row['one_by_one'] else ''
    return [
        row['model'] + star, row['norms'], f'{row["parameters_m"]:.1f} M',
        f'{row["trained_percent"]:.2f} %', *ratios,
        row.get('onnx', 'not tried')
    ]
