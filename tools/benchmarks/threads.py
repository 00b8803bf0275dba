"""Predict from many threads with one model: equal to serial, memory flat.

Each thread predicts an image of its own again and again, with a posterior of
each kind in turn. Every map is compared bit for bit with the one that a
single thread computed before. Memory after the first tenth of the work is
compared with memory at the end.
"""
import argparse
import tempfile
import threading
from collections.abc import Sequence

import torch
from torch import Tensor

from abnn_mmseg.datasets.muad_sketch import make_muad_sketch
from abnn_mmseg.engine.loading import build_posterior, build_segmentor
from abnn_mmseg.models.posteriors import Posterior
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.console import progress
from benchmarks.memory import in_process
from benchmarks.soak import COUNTS, Watch, demo_config

VIEWS = dict(flips=('horizontal', ), scales=(0.75, ))
POSTERIORS = {
    'all layers': dict(type='BNLPosterior', alpha=0.2, samples=4),
    'one view a network': dict(
        type='BNLPosterior', alpha=0.2, samples=4, views=VIEWS),
    'head only': dict(
        type='BNLPosterior', alpha=0.2, samples=4, scope='decode_head'),
    'per pixel': dict(
        type='BNLPosterior', alpha=0.2, samples=4, noise='element'),
    'dropout': dict(type='DropoutPosterior', rate=0.3, samples=4),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of ``tools/benchmark.py threads``."""
    parser.add_argument(
        '--config', default='configs/abnn_deeplabv3plus_muad-sketch.py')
    parser.add_argument('--threads', type=int, default=4)
    parser.add_argument('--predictions', type=int, default=200,
                        help='of each thread, over all posteriors')
    parser.add_argument('--size', type=int, nargs=2, default=(64, 96))


def run(args: argparse.Namespace) -> dict:
    """Wrong maps of each posterior, and the memory of all of them."""
    with tempfile.TemporaryDirectory() as folder:
        make_muad_sketch(f'{folder}/data', COUNTS, workers=1)
        return in_process(stress, args, folder)


def stress(args: argparse.Namespace, folder: str) -> dict:
    """All posteriors around one model, one after the other."""
    cfg = demo_config(args.config, folder)
    model = build_segmentor(cfg, cfg.load_from, 'cpu')
    images = torch.randn(
        args.threads, 1, 3, *args.size,
        generator=torch.Generator().manual_seed(0))
    each = max(1, args.predictions // len(POSTERIORS))
    watch = Watch(each * args.threads * len(POSTERIORS))
    rows = []
    for name, settings in progress(
            POSTERIORS.items(), 'Posteriors', len(POSTERIORS)):
        posterior = build_posterior(model, settings)
        rows.append(dict(
            posterior=name, predictions=each * args.threads,
            wrong=race(model, posterior, images, each, watch)))
    return dict(
        wrong=sum(row['wrong'] for row in rows), rows=rows,
        memory=watch.verdict())


def race(model: BayesianSegmentor, posterior: Posterior,
         images: Sequence[Tensor], each: int, watch: Watch) -> int:
    """Number of maps that differ from those of a single thread.

    Args:
        model (BayesianSegmentor): Shared by all threads.
        posterior (Posterior): Attached to it.
        images (Sequence[Tensor]): One of each thread.
        each (int): Predictions of each thread.
        watch (Watch): Counts predictions.
    """
    expected = [entropy(model, posterior, image) for image in images]
    differ, errors = [], []
    turn = threading.Lock()

    def work(number: int) -> None:
        try:
            for _ in range(each):
                found = entropy(model, posterior, images[number])
                with turn:
                    differ.append(not torch.equal(found, expected[number]))
                    watch.step()
        except Exception as error:  # must reach the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number, ))
               for number in range(len(images))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return sum(differ)


@torch.no_grad()
def entropy(model: BayesianSegmentor, posterior: Posterior,
            image: Tensor) -> Tensor:
    """The entropy map ``[H, W]`` of one image."""
    size = tuple(image.shape[2:])
    metas = [dict(ori_shape=size, img_shape=size, pad_shape=size)]
    [draws] = model.answer(image, metas, posterior).statistics
    probability = draws.probability
    return torch.special.entr(probability).sum(0)
