"""Tiny datasets on disk, in the layouts of the real ones."""
import os.path as osp
import runpy
import sys

import numpy as np
import pytest
from mmseg.utils import register_all_modules
from PIL import Image


@pytest.fixture(autouse=True)
def mmseg_scope():
    """Pipelines look their transforms up in the default scope."""
    register_all_modules()


@pytest.fixture
def save():
    """Write an array as an image, making folders; returns the path."""

    def _save(path, array):
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(array, np.uint8)).save(path)
        return path

    return _save


@pytest.fixture
def save_pair(save):
    """Write a grey image of the size of its raw label, and the label."""

    def _save(image, label, raw):
        raw = np.asarray(raw, np.uint8)
        save(image, np.full((*raw.shape, 3), 90))
        return save(label, raw)

    return _save


@pytest.fixture
def muad(tmp_path, save_pair):
    """Every raw id of MUAD, four pixels each, in train and test_ood."""
    raw = np.repeat([*range(22), 255], 4).reshape(4, 23)
    for split, count in (('train', 3), ('test_ood', 2)):
        for i in range(count):
            save_pair(tmp_path / split / f'leftImg8bit/{i:06}_leftImg8bit.png',
                      tmp_path / split / f'leftLabel/{i:06}_leftLabel.png',
                      raw)
    return tmp_path


@pytest.fixture
def run_tool(monkeypatch):
    """Run a file of tools/ as a command; returns its exit code."""

    def _run(name, *arguments):
        tool = osp.join(osp.dirname(__file__), '../../tools', name)
        monkeypatch.setattr(sys, 'argv', [tool, *map(str, arguments)])
        try:
            runpy.run_path(tool, run_name='__main__')
        except SystemExit as stop:
            return stop.code
        return 0

    return _run
