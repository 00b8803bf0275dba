"""Label sets and alarms come out of every product."""
import base64
import json
import re
import zlib

import cv2
import numpy as np
import pytest
import torch
from sketches import abnn_config

from abnn_mmseg.deploy.onnx import example_image, export_program, save_onnx
from abnn_mmseg.deploy.segmentor import DeployedSegmentor
from abnn_mmseg.engine.loading import build_segmentor
from abnn_mmseg.export import ABNNInferencer, export_maps
from abnn_mmseg.export.items import find_items
from abnn_mmseg.export.tiling import TiledInferencer
from abnn_mmseg.members.certify import Wanted, certify
from abnn_mmseg.members.guarantees import write_guarantees

FORMATS = ['label-set', 'set-size', 'alarm', 'gallery']


@pytest.fixture
def cfg(sketch, base, tmp_path):
    """With two guarantees in a file of their own."""
    cfg = abnn_config(sketch, tmp_path / 'work', base)
    cfg.val_dataloader.dataset.split = 'test_ood'
    cfg.model.scores = ('entropy', )
    model = build_segmentor(cfg, base)
    dataset = cfg.val_dataloader.dataset
    write_guarantees(tmp_path / 'own.json', [
        certify(cfg, model, wanted, dataset).to_dict() for wanted in (
            Wanted('label-set', 0.3), Wanted('miss', 0.3))])
    cfg.model.guarantees = str(tmp_path / 'own.json')
    return cfg


def results(inferencer):
    return list(inferencer.results(
        item.load for item in find_items(inferencer, 'val')[1]))


def test_results_have_sets_and_alarms(cfg, base):
    inferencer = ABNNInferencer(cfg, str(base), device='cpu')
    by_risk = {g.risk: g for g in inferencer.guarantees}
    [result, *_] = list(inferencer.results(
        (item.load for item in find_items(inferencer, 'val')[1]),
        probability=True))
    np.testing.assert_array_equal(
        result.label_set, result.probability >= by_risk['label-set'].threshold)
    np.testing.assert_array_equal(result.set_size, result.label_set.sum(0))
    assert result.set_size.max() > 1
    np.testing.assert_array_equal(
        result.alarm, result.maps['entropy'] >= by_risk['miss'].threshold)
    cfg.model.posterior.alpha = 0.5
    [other, *_] = results(ABNNInferencer(cfg, str(base), device='cpu'))
    with pytest.raises(ValueError, match='no label set.*alpha 0.2.*alpha 0.5'):
        other.label_set  # noqa: B018
    cfg.model.guarantees = None
    [none, *_] = results(ABNNInferencer(cfg, str(base), device='cpu'))
    with pytest.raises(ValueError, match='no alarm.*abnn certify'):
        none.alarm  # noqa: B018


def test_exports_are_the_results(cfg, base, tmp_path):
    inferencer = ABNNInferencer(cfg, str(base), device='cpu')
    out = tmp_path / 'out'
    export_maps(inferencer, 'val', out, FORMATS)
    for result in results(inferencer):
        path = out / f'label-set/label-set/{result.name}.npz'
        np.testing.assert_array_equal(
            np.load(path)['label_set'], result.label_set)
        size = cv2.imread(str(out / f'set-size/label-set/{result.name}.png'),
                          cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(size, result.set_size)
        alarm = cv2.imread(str(out / f'alarm/miss/{result.name}.png'),
                           cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(alarm, 255 * result.alarm)
        text = (out / f'gallery/data/{result.name}.js').read_text()
        packed = json.loads(re.search(r', (\{.*\})\);', text, re.S)[1])
        bits = np.frombuffer(zlib.decompress(base64.b64decode(
            packed['guaranteed']['label-set'])), np.uint8)
        sets = np.unpackbits(bits.reshape(-1, *result.prediction.shape),
                             axis=0, bitorder='little')[:15]
        np.testing.assert_array_equal(sets.astype(bool), result.label_set)
    page = (out / 'gallery/index.html').read_text()
    assert "the set holds the true class of 70 % of an image's pixels" in page
    again = export_maps(inferencer, 'val', out, FORMATS, resume=True)
    assert (again.written, again.skipped) == (0, 3)
    cfg.model.guarantees = None
    plain = ABNNInferencer(cfg, str(base), device='cpu')
    with pytest.raises(ValueError, match="'alarm' needs a guarantee"):
        export_maps(plain, 'val', tmp_path / 'plain', ['alarm'])


def test_tiles_have_the_same_sets(cfg, base):
    cfg.model.test_cfg = dict(mode='slide', crop_size=(32, 32),
                              stride=(24, 24))
    cfg.model.posterior.update(samples=2)
    model = build_segmentor(cfg, base)
    wanted = Wanted('label-set', 0.3)
    write_guarantees(cfg.model.guarantees, [certify(
        cfg, model, wanted, cfg.val_dataloader.dataset).to_dict()])
    inferencer = ABNNInferencer(cfg, str(base), device='cpu')
    whole = results(inferencer)
    tiled = results(TiledInferencer(inferencer, 40))
    for one, other in zip(whole, tiled):
        assert (one.label_set == other.label_set).mean() > 0.9999


def test_a_graph_has_them_as_outputs_and_lambda_as_metadata(cfg, base,
                                                            tmp_path):
    onnxruntime = pytest.importorskip('onnxruntime')
    pytest.importorskip('onnxscript')
    cfg.model.posterior = dict(type='DeterministicPosterior')
    cfg.model.guarantees = None
    model = build_segmentor(cfg, base)
    own = [certify(cfg, model, Wanted(risk, 0.3), cfg.val_dataloader.dataset)
           for risk in ('label-set', 'miss')]
    model.posterior.guarantees = own
    path = tmp_path / 'model.onnx'
    program = export_program(model, (32, 64))
    assert set(save_onnx(program, model, path)) == {
        'probability', 'entropy', 'label_set', 'miss'}
    session = onnxruntime.InferenceSession(str(path))
    stored = json.loads(
        session.get_modelmeta().custom_metadata_map['guarantees'])
    assert stored[0]['lambda'] == 1 - own[0].threshold
    assert '70 %' in stored[0]['promise']
    image = example_image((40, 56), 3)
    probability, entropy, sets, alarm = session.run(
        None, {'image': image.numpy()})
    assert sets.dtype == bool and sets.shape == probability.shape
    np.testing.assert_array_equal(
        sets, probability >= np.float32(own[0].threshold))
    np.testing.assert_array_equal(
        alarm[0], entropy >= np.float32(own[1].threshold))
    with torch.no_grad():
        expected = DeployedSegmentor(model, image)(image)[2]
    assert (expected.numpy() == sets).mean() > 0.9999
