"""Kill whatever writes files at random moments, run again, compare.

    python tests/interrupt.py --kills 20
    python tests/interrupt.py --kills 20 --only Distillation Comparison

For every kill: start in an empty folder, send a signal after a random file,
check that every file with a final name is whole, resume, and compare with a
run that nobody disturbed: maps byte by byte, members tensor by tensor.
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
from sketches import abnn_config, config, save_two_members
from toys import build, toy_config

from abnn_mmseg.cli import certify, fit
from abnn_mmseg.cli.main import command_parser
from abnn_mmseg.comparison import compare, evaluation
from abnn_mmseg.datasets.muad_sketch import make_muad_sketch
from abnn_mmseg.engine import read_members, train
from abnn_mmseg.engine.distiller import distil
from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.export import ABNNInferencer, export_maps
from abnn_mmseg.fitting import laplace, norm_chain
from abnn_mmseg.utils.checkpoints import read_checkpoint
from abnn_mmseg.utils.console import say_errors
from abnn_mmseg.utils.files import atomic_write

FORMATS = ('npy', 'npz', 'png16', 'csv', 'gallery')


@HOOKS.register_module()
class PauseHook(Hook):
    """Waits after each iteration."""

    def __init__(self, seconds):
        self.seconds = seconds

    def after_train_iter(self, runner, *args, **kwargs):
        time.sleep(self.seconds)


class Work:
    """What a command does in a folder, and how it goes on.

    Args:
        sketch (Path): Root of a MUAD-sketch.
        base (Path): A trained network.
    """

    def __init__(self, sketch, base):
        self.sketch, self.base = sketch, base
        # Not forked away: every run has the same members.
        self.inputs = tempfile.TemporaryDirectory()
        self.members = Path(self.inputs.name) / 'members.pth'
        model = build_segmentor(self.config('unused'), str(base), 'cpu')
        save_two_members(model, self.members)

    def config(self, folder):
        return abnn_config(self.sketch, folder, self.base)

    def check_whole(self, folder):
        """What a killed run left can all be read."""
        for path in visible(folder):
            if path.suffix == '.pth':
                read_checkpoint(path)
            # mmengine appends lines to its scalars.json.
            if path.suffix == '.json' and 'vis_data' not in path.parts:
                json.loads(path.read_text())


class Distillation(Work):
    """Eight steps, a checkpoint every two."""

    def run(self, folder, resume):
        cfg = abnn_config(self.sketch, folder, self.base, prediction='base')
        cfg.model.posterior.members = str(self.members)
        cfg.train_cfg = dict(
            type='DistillTrainLoop', max_iters=8, width=8, validate=1,
            interval=2)
        cfg.resume = resume
        distil(cfg)

    def content(self, folder):
        content = tensors_in(Path(folder) / 'student.pth')
        rows = json.loads((Path(folder) / 'validation.json').read_text())
        return {**content, 'validation': json.dumps(without(rows, TIMES))}


class Fits(Work):
    """The three fits, with what they have done stored all the time."""

    def run(self, folder, resume):
        laplace.SAVE_EVERY = norm_chain.SAVE_EVERY = -1.
        path = Path(self.inputs.name) / 'abnn.py'
        self.config(folder).dump(path)
        hmc = ('--samples 4 --burn-in 2 --max-steps 2 --chains 2 '
               '--images 2 --effective-pixels 20')
        for method, options in dict(
                laplace='--draws 2 --val-images 1 --effective-pixels 20',
                swag='--iterations 12 --every 2', hmc=hmc).items():
            # A finished fit is not asked for again.
            if not (Path(folder) / method / f'{method}.pth').exists():
                fit.run(command_parser('fit').parse_args([
                    method, str(path), str(self.base), '--work-dir',
                    f'{folder}/{method}', *options.split()]))

    def content(self, folder):
        content = {}
        for method in ('laplace', 'swag', 'hmc'):
            path = Path(folder) / method / f'{method}.pth'
            report = json.loads(path.with_suffix('.json').read_text())
            content.update({
                f'{method} {name}': value
                for name, value in tensors_in(path).items()})
            content[method] = json.dumps(without(report, TIMES))
        return content


class Comparison(Work):
    """A base and its ABNN on three images, stored after each."""

    def run(self, folder, resume):
        evaluation.SAVE_EVERY = -1.
        inputs = Path(self.inputs.name)
        config(self.sketch, inputs).dump(inputs / 'base.py')
        self.config(inputs).dump(inputs / 'abnn.py')
        cfg = config(self.sketch, folder)
        cfg.test_evaluator = [
            dict(type='IoUMetric', iou_metrics=['mIoU']),
            dict(type='CalibrationMetric'), dict(type='AnomalyMetric')]
        cfg.test_sets = dict(ood=dict())
        cfg.methods = [
            dict(name=name, config=str(inputs / f'{name}.py'),
                 checkpoints=[str(self.base), *more], variants=variants)
            for name, more, variants in (
                ('base', [], {'': {}}),
                ('abnn', [str(self.members)],
                 {'mean': {}, 'centre': dict(prediction='centre')}))]
        compare(cfg, f'{folder}/table.json', images=3)

    def content(self, folder):
        content = {path.name: path.read_bytes() for path in visible(folder)
                   if path.suffix == '.npz'}
        rows = json.loads((Path(folder) / 'table.json').read_text())['rows']
        content['rows'] = json.dumps(without(rows, TIMES))
        content['unfinished'] = [
            str(path) for path in visible(folder) if 'unfinished' in path.name]
        return content


class Certification(Work):
    """Two guarantees, kept with the members."""

    def run(self, folder, resume):
        members = Path(folder) / 'members.pth'
        if not members.exists():
            atomic_write(members, self.members.read_bytes())
        path = Path(self.inputs.name) / 'abnn.py'
        self.config(folder).dump(path)
        for options in (['label-set'], ['false-alarm', '--part', '0.1']):
            certify.run(command_parser('certify').parse_args([
                str(path), str(self.base), str(members), '--data', 'test',
                '--images', '3', '--level', '0.3', '--risk', *options]))

    def content(self, folder):
        path = Path(folder) / 'members.pth'
        return {**tensors_in(path), 'guarantees': json.dumps(
            [member['meta'] for member in read_members(path)])}


# Of rows and reports, what another run measures anew.
TIMES = ('seconds', 'wall_seconds', 'inference', 'training', 'cost',
         'passes')


def without(content, names):
    """JSON without some keys, at any depth."""
    if isinstance(content, dict):
        return {key: without(value, names) for key, value in content.items()
                if key not in names}
    if isinstance(content, list):
        return [without(value, names) for value in content]
    return content


def tensors_in(path):
    """All tensors of a member file, as bytes."""
    return {
        f'member {k} {name}': value.numpy().tobytes()
        for k, member in enumerate(read_members(path))
        for name, value in member['state'].items()}


class Training(Work):
    """Two members of four iterations, a checkpoint every two."""

    def __init__(self, sketch, base, pause=0):
        self.sketch, self.base, self.pause = sketch, base, pause

    def run(self, folder, resume):
        cfg = abnn_config(self.sketch, folder, self.base)
        cfg.resume = resume
        cfg.custom_hooks = [dict(type='PauseHook', seconds=self.pause)]
        cfg.val_dataloader = cfg.val_evaluator = cfg.val_cfg = None
        train(cfg, members=2)

    def content(self, folder):
        """All that does not say how long it took."""
        members = read_members(Path(folder) / 'members.pth')
        content = tensors_in(Path(folder) / 'members.pth')
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


KINDS = {kind.__name__: kind for kind in (
    Training, Export, Distillation, Fits, Comparison, Certification)}


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
        begin = time.monotonic()
        undisturbed(work, f'{root}/whole')
        seconds = time.monotonic() - begin
        work.reference = work.content(f'{root}/whole')
        assert work.reference
        files = len(everything(f'{root}/whole'))
        for kill in range(kills):
            folder = f'{root}/{kill}'
            moment = (dice.randrange(files),
                      dice.uniform(0, max(0.02, seconds / files)))
            code = interrupted(work, folder, moment, number)
            assert code in (0, -number, 130), code
            cut += code != 0
            work.check_whole(folder)
            undisturbed(work, folder, resume=True)
            assert_equal(work.content(folder), work.reference)
            hidden = [p for p in Path(folder).rglob('.*.tmp-*')]
            assert not hidden, hidden
    return cut


def assert_equal(actual, expected):
    assert set(actual) == set(expected), set(actual) ^ set(expected)
    different = [k for k in expected if actual[k] != expected[k]]
    assert not different, different[:5]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--kills', type=int, default=20)
    parser.add_argument('--only', nargs='+', default=list(KINDS),
                        choices=KINDS, help='what to interrupt')
    args = parser.parse_args()
    kills = args.kills
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
        for kind in map(KINDS.get, args.only):
            work = kind(f'{folder}/sketch', f'{folder}/base.pth')
            for number in (signal.SIGKILL, signal.SIGINT):
                cut = disturb(work, kills, number=number)
                print(f'{kind.__name__}: {cut} of {kills} runs ended by '
                      f'{number.name}; all resumed to the same files.')
                sys.stdout.flush()


if __name__ == '__main__':
    main()
