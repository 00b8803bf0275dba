"""Run for long and look for leaks: memory, file handles, threads.

Exports many small images and trains members of the demo's network, in a
process of its own each. Memory after the first tenth of the work is compared
with memory at the end.
"""
import argparse
import gc
import os
import tempfile
import threading
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.registry import init_default_scope
from mmseg.registry import HOOKS, MODELS

from abnn_mmseg.datasets.muad_sketch import make_muad_sketch
from abnn_mmseg.engine import train
from abnn_mmseg.engine.loading import bayesian_model_cfg
from abnn_mmseg.export import ABNNInferencer, export_maps
from benchmarks.memory import in_process

COUNTS = dict(train=40, val=4, test_id=4, test_ood=4)
ROOM = 1.05


class Usage(NamedTuple):
    """Memory, files and threads of this process."""
    megabytes: float
    handles: int
    threads: int


def usage() -> Usage:
    """Current values of this process, from Linux' ``/proc``."""
    gc.collect()
    pages = int(Path('/proc/self/statm').read_text().split()[1])
    return Usage(
        round(pages * os.sysconf('SC_PAGE_SIZE') / 2**20, 1),
        len(os.listdir('/proc/self/fd')), threading.active_count())


class Watch:
    """Looks at this process after the first tenth of the work."""

    def __init__(self, total: int) -> None:
        self.total, self.done = total, 0
        self.early: Optional[Usage] = None

    def step(self) -> None:
        """One unit of work is done."""
        self.done += 1
        if self.done == max(1, self.total // 10):
            self.early = usage()

    def verdict(self) -> dict:
        """The numbers at both moments, and whether anything grew."""
        assert self.early is not None and self.done == self.total
        late = usage()
        ratio = late.megabytes / self.early.megabytes
        return dict(
            steps=self.total, early_mb=self.early.megabytes,
            late_mb=late.megabytes, ratio=round(ratio, 4),
            handles=late.handles - self.early.handles,
            threads=late.threads - self.early.threads,
            leaks=bool(ratio > ROOM or late.handles > self.early.handles
                       or late.threads > self.early.threads))


@HOOKS.register_module()
class SoakHook(Hook):
    """Counts the iterations of all members."""

    watch: Optional[Watch] = None

    def after_train_iter(self, runner, batch_idx, data_batch=None,
                         outputs=None) -> None:
        if self.watch is not None:
            self.watch.step()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py soak``."""
    parser.add_argument(
        '--config', default='configs/abnn_deeplabv3plus_muad-sketch.py')
    parser.add_argument('--images', type=int, default=2000)
    parser.add_argument('--members', type=int, default=3)
    parser.add_argument('--iterations', type=int, default=500)


def run(args: argparse.Namespace) -> dict:
    """Run both soaks; ``leaks`` is True if either grew."""
    with tempfile.TemporaryDirectory() as folder:
        make_muad_sketch(f'{folder}/data', COUNTS, workers=1)
        results: dict[str, dict] = {
            soak.__name__: in_process(soak, args, folder)
            for soak in (soak_export, soak_training)}
    return dict(
        leaks=any(r['leaks'] for r in results.values()), **results)


def soak_export(args: argparse.Namespace, folder: str) -> dict:
    """The same small images again and again, as arrays and pictures."""
    cfg = demo_config(args.config, folder)
    inferencer = ABNNInferencer(cfg, f'{folder}/base.pth', device='cpu')
    images = f'{folder}/images'
    _small_images(images, args.images)
    watch = Watch(args.images)
    predict = inferencer.predict

    def counted(data: list[dict]) -> list:
        samples = predict(data)
        for _ in data:
            watch.step()
        return samples

    inferencer.predict = counted  # type: ignore[method-assign]
    export_maps(inferencer, images, f'{folder}/maps', ['npy', 'heatmap'])
    return watch.verdict()


def soak_training(args: argparse.Namespace, folder: str) -> dict:
    """Members of the demo's network, one after the other."""
    cfg = demo_config(args.config, folder)
    cfg.train_cfg.max_iters = args.iterations
    cfg.train_cfg.val_interval = args.iterations
    cfg.custom_hooks = [
        *cfg.get('custom_hooks', []), dict(type='SoakHook')]
    SoakHook.watch = Watch(args.members * args.iterations)
    train(cfg, args.members)
    return SoakHook.watch.verdict()


def demo_config(path: str, folder: str) -> Config:
    """A config on drawn data, over a base that was not trained.

    Args:
        path (str): The config, such as the demo's.
        folder (str): Holds the data, and gets the base.
    """
    init_default_scope('mmseg')
    cfg = Config.fromfile(path)
    cfg.work_dir = f'{folder}/work'
    cfg.log_level = 'WARNING'
    cfg.load_from = f'{folder}/base.pth'
    for split in ('train', 'val', 'test'):
        cfg[f'{split}_dataloader'].dataset.data_root = f'{folder}/data'
    if not Path(cfg.load_from).exists():
        torch.manual_seed(0)
        model = MODELS.build(bayesian_model_cfg(cfg))
        torch.save(model.state_dict(), cfg.load_from)
    return cfg


def _small_images(folder: str, count: int) -> None:
    import cv2
    dice = np.random.default_rng(0)
    Path(folder).mkdir()
    for number in range(count):
        cv2.imwrite(f'{folder}/{number:06d}.png',
                    dice.integers(0, 255, (64, 96, 3), np.uint8))

