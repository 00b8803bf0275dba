"""The tutorial's commands run, in its order, on fewer images and steps."""
import json
import re
import shlex
from pathlib import Path

import cv2
import numpy as np
import pytest

from abnn_mmseg.cli.main import main
from abnn_mmseg.datasets.muad_sketch import draw_scene

PAGE = Path(__file__).resolve().parents[1] / 'docs/tutorial.md'
BLOCKS = re.findall(r'^```(bash|python)\n(.*?)^```', PAGE.read_text(),
                    re.M | re.S)
SHORT = {
    'work_dirs/base': ['train_cfg.max_iters=2', 'train_cfg.val_interval=2',
                       'default_hooks.checkpoint.interval=2'],
    'work_dirs/abnn': ['train_cfg.max_iters=2', 'train_cfg.members=2',
                       'train_cfg.val_begin=3']}
# Raw ids of a sketch as the tutorial's five classes.
IDS = np.full(256, 255, np.uint8)
IDS[[0, 1, 2, 3, 4, 8, 9, 11, 13, 14, 15]] = (0, 0, 1, 1, 1, 2, 2, 4, 3, 3, 3)


@pytest.fixture
def streets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for split, count in dict(train=4, val=2, test=2).items():
        for i in range(count):
            image, label = draw_scene(
                np.random.default_rng([i, len(split)]), (64, 32))
            for kind, picture in (('images', image[..., ::-1]),
                                  ('labels', IDS[label])):
                folder = tmp_path / 'data/my_streets' / kind / split
                folder.mkdir(parents=True, exist_ok=True)
                cv2.imwrite(str(folder / f'{i}.png'), picture)
    return tmp_path


def command(line):
    """The arguments of ``abnn``, with fewer steps."""
    words = shlex.split(line)[1:]
    words = [word.replace('iter_2000', 'iter_2') for word in words]
    if words[0] == 'train':
        words += ['--cfg-options', *SHORT[words[-1]]]
    return words


def test_the_tutorial_runs(streets, capsys):
    for kind, code in BLOCKS:
        if kind == 'bash':
            for line in code.replace('\\\n', ' ').splitlines():
                main(command(line))
        elif name := re.match(r'# (\w+\.py)\n', code):
            (streets / name[1]).write_text(code)
        else:
            exec(compile(code, PAGE.name, 'exec'), {})
    assert (streets / 'maps/gallery/index.html').is_file()
    assert len(list((streets / 'maps/npy/entropy').glob('*.npy'))) == 2
    metrics = json.loads((streets / 'work_dirs/test/metrics.json').read_text())
    assert 'cal/pooled/ECE' in json.dumps(metrics)
    assert 'entropy' in (streets / 'maps/csv/entropy.csv').name
