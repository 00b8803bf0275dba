"""Pictures of small scores have colours, on one scale for the set."""
import json

import cv2
import numpy as np
import pytest
from sketches import abnn_config

from abnn_mmseg.export import ABNNInferencer, export_maps
from abnn_mmseg.export.result import MapResult
from abnn_mmseg.export.scales import with_scales
from abnn_mmseg.export.writers import WriterSettings
from abnn_mmseg.utils.colours import scale_of

SCORES = ['mutual_information', 'energy', 'entropy']


def test_a_scale_has_two_digits_and_an_extent():
    assert scale_of([(0.001, 0.0234), (0, 0.0171)], True) == (0, 0.024)
    assert scale_of([(-12.34, -3.2)], False) == (-12.4, -3.2)
    assert scale_of([(0, 0)], True) == (0, 1)


@pytest.fixture
def exported(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path / 'work', base)
    inferencer = ABNNInferencer(cfg, str(base), device='cpu', scores=SCORES)
    export_maps(inferencer, 'test', tmp_path / 'out', ['heatmap', 'npy'])
    return inferencer, tmp_path / 'out'


def test_mutual_information_and_energy_are_visible_unasked(exported):
    inferencer, folder = exported
    scales = json.loads((folder / 'scales.json').read_text())
    assert set(scales) == {'mutual_information', 'energy'}
    for score in scales:
        [first, *_] = sorted((folder / 'npy' / score).iterdir())
        values = np.load(first)
        picture = cv2.imread(
            str(folder / 'heatmap' / score / f'{first.stem}.png'))
        colours = picture[:values.shape[0], :values.shape[1]].sum(2)
        assert np.ptp(colours) > 150
    # Images that come later have the same colours.
    (folder / 'scales.json').write_text('{"energy": [-99, 99]}')
    export_maps(inferencer, 'test', folder, ['heatmap', 'npy'], resume=True)
    again = json.loads((folder / 'scales.json').read_text())
    assert again['energy'] == [-99, 99]


def test_results_pass_in_order_and_are_measured_first(tmp_path):
    zeros = np.zeros((4, 6))
    results = [MapResult(str(i), zeros, dict(variance=zeros + i / 100))
               for i in range(6)]
    settings = WriterSettings(tmp_path, ['variance'], classes=['a', 'b'])
    passed = []
    for result in with_scales(results, settings, 4):
        assert settings.picture_range('variance') == (0, 0.03)
        passed.append(result.name)
    assert passed == list('012345')


def test_the_scale_of_a_faster_shard_counts(tmp_path):
    """It appears while this one predicts its first images."""
    zeros = np.zeros((4, 6))

    def results():
        """The other shard writes its scale meanwhile."""
        (tmp_path / 'scales.json').write_text('{"variance": [0, 0.5]}')
        yield MapResult('a', zeros, dict(variance=zeros + 0.1))

    settings = WriterSettings(tmp_path, ['variance'], classes=['a', 'b'],
                              resume=True)
    assert len(list(with_scales(results(), settings, 4))) == 1
    assert list(settings.picture_range('variance')) == [0, 0.5]
    assert json.loads((tmp_path / 'scales.json').read_text()) == {
        'variance': [0, 0.5]}
