"""Kill training and export at random moments, resume, compare.

    python tests/interrupt.py --kills 20

For every kill: start in an empty folder, SIGKILL after a random file, check
that every file with a final name is whole, resume, and compare with a run
that nobody disturbed: maps byte by byte, members tensor by tensor.
"""
import argparse
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import cv2
import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS, init_default_scope
from sketches import abnn_config
from toys import build, toy_config

from abnn_mmseg.datasets.muad_sketch import make_muad_sketch
from abnn_mmseg.engine import read_members, train
from abnn_mmseg.export import ABNNInferencer, export_maps
from abnn_mmseg.utils.checkpoints import read_checkpoint
from abnn_mmseg.utils.console import say_errors

FORMATS = ('npy', 'npz', 'png16', 'csv', 'gallery')


@HOOKS.register_module()
class PauseHook(Hook):
    """Waits after each iteration."""

    def __init__(self, seconds):
        self.seconds = seconds

    def after_train_iter(self, runner, *args, **kwargs):
        time.sleep(self.seconds)


class Training:
    """Two members of four iterations, a checkpoint every two."""

    def __init__(self, sketch, base, pause=0):
        self.sketch, self.base, self.pause = sketch, base, pause

    def run(self, folder, resume):
        cfg = abnn_config(self.sketch, folder, self.base)
        cfg.resume = resume
        cfg.custom_hooks = [dict(type='PauseHook', seconds=self.pause)]
        cfg.val_dataloader = cfg.val_evaluator = cfg.val_cfg = None
        train(cfg, members=2)

    def check_whole(self, folder):
        """What a killed run left can all be read."""
        for path in visible(folder):
            if path.suffix == '.pth':
                read_checkpoint(path)

    def content(self, folder):
        """All that does not say how long it took."""
        members = read_members(Path(folder) / 'members.pth')
        content = {
            f'member {k} {name}': value.numpy().tobytes()
            for k, member in enumerate(members)
            for name, value in member['state'].items()}
        for k, member in enumerate(members):
            meta = {key: str(value) for key, value in member['meta'].items()
                    if key != 'seconds'}
            content[f'member {k}'] = json.dumps(meta).encode()
        for path in visible(folder):
            if path.suffix == '.pth':
                content.setdefault(str(path.relative_to(folder)), b'')
        return content


class Export:
    """Every image of the sketch's test set, in five formats."""

    def __init__(self, sketch, base):
        self.images = Path(sketch)
        self.inferencer = ABNNInferencer(
            abnn_config(sketch, 'unused', base), str(base), device='cpu')

    def run(self, folder, resume):
        export_maps(self.inferencer, str(self.images), folder, FORMATS,
                    resume=resume)

    def check_whole(self, folder):
        """Whatever is there is what it will be."""
        reference = self.reference
        for name, data in self.content(folder).items():
            # Tables and the page are made of all images, at the end.
            if not name.endswith(('.csv', 'index.html')):
                assert reference[name] == data, name

    def content(self, folder):
        content = {}
        for path in visible(folder):
            # The lines of a journal say when an image was done.
            if path.suffix != '.jsonl':
                content[str(path.relative_to(folder))] = path.read_bytes()
        return content


def everything(folder):
    """All files, also those that are being written."""
    return [Path(at, name) for at, _, names in os.walk(folder)
            for name in names]


def visible(folder):
    """Files under their final names."""
    return [path for path in everything(folder)
            if not path.name.startswith('.')]


def child(work, folder, resume):
    """Run in a fork: it has all modules, and starts in no time."""
    with open(os.devnull, 'w') as null:
        os.dup2(null.fileno(), 1)
        os.dup2(null.fileno(), 2)
    # A shell starts what runs in the background deaf to Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Threads of the parent do not exist here.
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    with say_errors():
        work.run(folder, resume)


def start(work, folder, resume=False):
    """A process that runs it."""
    process = multiprocessing.get_context('fork').Process(
        target=child, args=(work, folder, resume))
    process.start()
    return process


def stop(process, number):
    """Send a signal if there is somebody to hear it; the exit code."""
    if process.is_alive():
        os.kill(process.pid, number)
    process.join()
    return process.exitcode


def interrupted(work, folder, moment, number):
    """Start, send a signal once so many files are there; the exit code."""
    files, seconds = moment
    process = start(work, folder)
    while process.is_alive() and len(everything(folder)) < files:
        time.sleep(0.005)
    process.join(seconds)
    return stop(process, number)


def undisturbed(work, folder, resume=False):
    process = start(work, folder, resume)
    process.join()
    assert process.exitcode == 0, process.exitcode


def disturb(work, kills, seed=0, number=signal.SIGKILL):
    """Interrupt that often; returns how many runs were really cut off."""
    dice, cut = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as root:
        undisturbed(work, f'{root}/whole')
        work.reference = work.content(f'{root}/whole')
        assert work.reference
        files = len(everything(f'{root}/whole'))
        for kill in range(kills):
            folder = f'{root}/{kill}'
            moment = dice.randrange(files), dice.uniform(0, 0.02)
            code = interrupted(work, folder, moment, number)
            assert code in (0, -number, 130), code
            cut += code != 0
            work.check_whole(folder)
            undisturbed(work, folder, resume=True)
            compare(work.content(folder), work.reference)
            hidden = [p for p in Path(folder).rglob('.*.tmp-*')]
            assert not hidden, hidden
    return cut


def compare(actual, expected):
    assert set(actual) == set(expected), set(actual) ^ set(expected)
    different = [k for k in expected if actual[k] != expected[k]]
    assert not different, different[:5]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--kills', type=int, default=20)
    kills = parser.parse_args().kills
    torch.set_num_threads(1)
    init_default_scope('mmseg')
    with tempfile.TemporaryDirectory() as folder:
        make_muad_sketch(
            f'{folder}/sketch',
            dict(train=6, val=3, test_id=10, test_ood=10), size=(64, 32),
            workers=1)
        cfg = toy_config(auxiliary=False)
        cfg['decode_head']['num_classes'] = 15
        torch.save(build(cfg).state_dict(), f'{folder}/base.pth')
        for kind in (Training, Export):
            work = kind(f'{folder}/sketch', f'{folder}/base.pth')
            for number in (signal.SIGKILL, signal.SIGINT):
                cut = disturb(work, kills, number=number)
                print(f'{kind.__name__}: {cut} of {kills} runs ended by '
                      f'{number.name}; all resumed to the same files.')
                sys.stdout.flush()


if __name__ == '__main__':
    main()
