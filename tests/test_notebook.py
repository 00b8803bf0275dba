"""The notebook runs, with fewer images and steps."""
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).resolve().parents[1] / 'docs/notebook.ipynb'


def test_the_notebook_runs(tmp_path, monkeypatch):
    matplotlib = pytest.importorskip('matplotlib')
    matplotlib.use('Agg')
    monkeypatch.chdir(tmp_path)
    names = {}
    for cell in json.loads(NOTEBOOK.read_text())['cells']:
        if cell['cell_type'] == 'code':
            code = ''.join(cell['source']).replace(
                'images, steps = 100, 30', 'images, steps = 4, 1')
            exec(compile(code, NOTEBOOK.name, 'exec'), names)
    assert len(names['results']) == 6
    maps = names['maps']
    # More draws come closer to all of them.
    assert abs(maps[6] - maps[12]).mean() < abs(maps[3] - maps[12]).mean()


def test_nothing_is_left_of_an_earlier_run():
    for cell in json.loads(NOTEBOOK.read_text())['cells']:
        assert not cell.get('outputs') and not cell.get('execution_count')
