"""Maps reach the visualizer's backends during val and test."""
import copy

import cv2
import numpy as np
import pytest
from mmengine.runner import Runner
from mmseg.apis import inference_model
from sketches import abnn_config

from abnn_mmseg.engine import draw_maps
from abnn_mmseg.engine.hooks import MapVisualizationHook
from abnn_mmseg.engine.loading import build_segmentor

SCORES = ('entropy', 'mutual_information')


def run(sketch, base, tmp_path, loop, backends, **hook):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.visualizer = dict(
        type='SegLocalVisualizer', vis_backends=backends,
        name=f'visualizer {tmp_path} {loop}')
    cfg.custom_hooks = [dict(type='MapVisualizationHook', **hook)]
    cfg.experiment_name = f'{tmp_path.name}_{loop}'
    runner = Runner.from_cfg(copy.deepcopy(cfg))
    getattr(runner, loop)()
    return sorted(tmp_path.rglob('vis_image/*.png'))


@pytest.mark.parametrize('loop', ['val', 'test'])
def test_one_image_in_so_many_is_drawn(sketch, base, tmp_path, loop):
    files = run(sketch, base, tmp_path, loop, [dict(type='LocalVisBackend')],
                interval=2, scores=SCORES)
    assert [path.name[:len(loop) + 6] for path in files] == [
        f'{loop}_00000', f'{loop}_00002']
    picture = cv2.imread(str(files[0]))
    # Image, ground truth, prediction, and two maps with a bar, 64 wide each.
    assert picture.shape[0] == 32 + 8 and picture.shape[1] > 5 * 72
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 50


def test_tensorboard_shows_the_maps(sketch, base, tmp_path):
    pytest.importorskip('tensorboard')
    from tensorboard.backend.event_processing import event_accumulator
    run(sketch, base, tmp_path, 'val', [dict(type='TensorboardVisBackend')],
        interval=3)
    [events] = tmp_path.rglob('events.out.*')
    log = event_accumulator.EventAccumulator(str(events)).Reload()
    [tag] = log.Tags()['images']
    assert tag.startswith('val_00000_')


def test_inference_functions_have_a_line_that_draws_maps(
        sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    model = build_segmentor(cfg, base, 'cpu')
    model.dataset_meta = dict(palette=[[i * 9] * 3 for i in range(15)])
    [file, *_] = sorted(sketch.rglob('test_id/leftImg8bit/*.png'))
    result = inference_model(model, str(file))
    out = tmp_path / 'maps.png'
    picture = draw_maps(model, file, result, SCORES, out_file=out)
    assert np.array_equal(cv2.imread(str(out))[..., ::-1], picture)
    # Image, prediction, and two maps with a bar.
    assert picture.shape[0] == 32 + 8 and picture.shape[1] > 4 * 72


def test_a_scale_is_given_natural_or_that_of_the_first_picture():
    values = np.linspace(-8, 0.02, 1000)
    hook = MapVisualizationHook(scale=dict(energy=(-9, 0)))
    assert hook._range('energy', values, 15) == (-9, 0)
    assert hook._range('entropy', values, 15) == (
        0, pytest.approx(np.log(15)))
    assert hook._range('max_logit', values, 15) == (-8, 0)
    assert hook._range('max_logit', values + 5, 15) == (-8, 0)
    assert hook._range('variance', values + 8.02, 15) == (0, 8)
    with pytest.raises(ValueError, match="did you mean 'entropy'"):
        MapVisualizationHook(scores=['entropi'])
    with pytest.raises(ValueError, match='interval=0'):
        MapVisualizationHook(interval=0)
