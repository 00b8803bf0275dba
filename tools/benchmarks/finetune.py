"""Cost of fine-tuning the norms only, against the whole network."""
import argparse
import statistics
import time

import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmengine.structures import PixelData
from mmseg.registry import MODELS
from mmseg.structures import SegDataSample

from abnn_mmseg.engine.loading import bayesian_model_cfg
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.console import progress
from benchmarks.memory import in_process, peak_resident_mb

WAYS = ('norms', 'full')


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py finetune``."""
    parser.add_argument(
        '--config', default='configs/abnn_deeplabv3plus_muad.py')
    parser.add_argument('--size', type=int, nargs=2, default=(256, 256),
                        metavar=('HEIGHT', 'WIDTH'))
    parser.add_argument('--batch', type=int, default=2)
    parser.add_argument('--repeats', type=int, default=5)
    parser.add_argument('--device', default='cpu')


def run(args: argparse.Namespace) -> dict:
    """Step time, memory and optimizer state of both ways, and ratios."""
    seconds = time_steps(args)
    peak = {way: in_process(peak_mb, args, way) for way in WAYS}
    state = {way: optimizer_bytes(args, way) for way in WAYS}
    return dict(
        step_ratio=seconds['norms'] / seconds['full'],
        memory_ratio=peak['norms'] / peak['full'],
        optimizer_state_ratio=state['norms'] / state['full'],
        step_s_norms=seconds['norms'], step_s_full=seconds['full'],
        peak_mb_norms=peak['norms'], peak_mb_full=peak['full'],
        optimizer_mb_norms=state['norms'] / 2**20,
        optimizer_mb_full=state['full'] / 2**20,
        batch=args.batch, height=args.size[0], width=args.size[1],
        threads=torch.get_num_threads(), device=args.device)


class Trainee:
    """A model, an optimizer and a batch: one step at a time."""

    def __init__(self, args: argparse.Namespace, way: str) -> None:
        init_default_scope('mmseg')
        torch.manual_seed(0)
        cfg = Config.fromfile(args.config)
        self.model: BayesianSegmentor = MODELS.build(bayesian_model_cfg(cfg))
        self.model.to(args.device)
        if way == 'full':
            self.model.requires_grad_(True)
        self.model.train()
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=1e-4, momentum=0.9, nesterov=True)
        self.images = torch.randn(
            args.batch, 3, *args.size, device=args.device)
        labels = torch.randint(0, self.model.num_classes,
                               (args.batch, 1, *args.size))
        self.samples = [
            SegDataSample(gt_sem_seg=PixelData(data=x.to(args.device)))
            for x in labels
        ]

    def step(self) -> None:
        losses = self.model.loss(self.images, self.samples)
        total = sum(v for k, v in losses.items() if 'loss' in k)
        self.optimizer.zero_grad(set_to_none=True)
        total.backward()
        self.optimizer.step()
        if self.images.device.type == 'cuda':
            torch.cuda.synchronize()


def time_steps(args: argparse.Namespace) -> dict[str, float]:
    """Median seconds of a step, the two ways taking turns."""
    trainees = {way: Trainee(args, way) for way in WAYS}
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for trainee in trainees.values():
        trainee.step()
    for _ in progress(range(args.repeats), 'Fine-tuning', args.repeats):
        for way, trainee in trainees.items():
            start = time.perf_counter()
            trainee.step()
            times[way].append(time.perf_counter() - start)
    return {way: statistics.median(t) for way, t in times.items()}


def optimizer_bytes(args: argparse.Namespace, way: str) -> int:
    trainee = Trainee(args, way)
    trainee.step()
    return sum(
        value.nbytes for state in trainee.optimizer.state.values()
        for value in state.values() if isinstance(value, torch.Tensor))


def peak_mb(args: argparse.Namespace, way: str) -> float:
    trainee = Trainee(args, way)
    for _ in range(2):
        trainee.step()
    if args.device != 'cpu':
        return torch.cuda.max_memory_allocated(args.device) / 2**20
    return peak_resident_mb()

