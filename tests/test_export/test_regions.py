"""Regions are the areas of the maps, to the pixel; labels keep the sure."""
import csv
import json

import cv2
import numpy as np
import pytest
from results import CLASSES, make_result, make_writer
from sketches import abnn_config

from abnn_mmseg.evaluation import SelectiveMetric
from abnn_mmseg.evaluation.components import components
from abnn_mmseg.export import ABNNInferencer, export_maps
from abnn_mmseg.export.items import find_items
from abnn_mmseg.export.regions import (
    measure,
    outlines,
    segment_patches,
    uncertain_patches,
)


def blobs(seed, size=(40, 52)):
    field = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    return cv2.GaussianBlur(field, (5, 5), 1.2)


def blob_result(name='a', seed=0):
    result = make_result(name, seed, size=(40, 52))
    result.maps['entropy'] = blobs(seed)
    result.maps['mutual_information'] = result.maps['entropy'] / 4
    result.prediction = (blobs(seed + 50) > 0.1).astype(int)
    return result


def signed_area(ring):
    x, y = np.array(ring, float).T
    return (x[:-1] * y[1:] - x[1:] * y[:-1]).sum() / 2


def pixels_of(rings, size):
    """Centres of pixels inside the rings, by the even-odd rule."""
    y, x = np.mgrid[:size[0], :size[1]] + 0.5
    inside = np.zeros(size, bool)
    for ring in rings:
        for (x1, y1), (_, y2) in zip(ring, ring[1:]):
            if y1 != y2:
                inside ^= (np.minimum(y1, y2) < y) & (
                    y < np.maximum(y1, y2)) & (x < x1)
    return inside


@pytest.mark.parametrize('seed', range(6))
def test_outlines_hold_the_pixels_of_the_region(seed):
    values = blobs(seed)
    patches = uncertain_patches(values, 0.0, 1)
    total = np.zeros(values.shape, int)
    holes = 0
    for patch in patches:
        rings = outlines(patch)
        holes += len(rings) - 1
        assert all(ring[0] == ring[-1] for ring in rings)
        area = abs(signed_area(rings[0])) - sum(
            abs(signed_area(ring)) for ring in rings[1:])
        assert area == patch.mask.sum()
        total += pixels_of(rings, values.shape)
    np.testing.assert_array_equal(total, values >= 0)
    assert holes


def test_numbers_of_a_region_are_those_of_its_pixels():
    result = blob_result()
    found = measure(result, 'entropy', 0.1, uncertain_patches(
        result.maps['entropy'], 0.1, 5) + segment_patches(
            result.prediction, 5))
    assert {region.patch.kind for region in found} == {'uncertain', 'segment'}
    for region in found:
        x, y, width, height = region.box
        mask = np.zeros(result.prediction.shape, bool)
        mask[y:y + height, x:x + width] = region.patch.mask
        values = result.maps['entropy'][mask].astype(float)
        assert region.area == len(values) >= 5
        assert region.mean == pytest.approx(values.mean())
        assert region.largest == values.max()
        assert region.excess == pytest.approx(
            sum(v - 0.1 for v in values if v > 0.1))
        assert mask.any(0).sum() == width and mask.any(1).sum() == height
        assert region.class_id == np.bincount(
            result.prediction[mask]).argmax()
        if region.patch.kind == 'uncertain':
            assert region.disagreement == pytest.approx(0.25, rel=1e-5)
        else:
            assert len(np.unique(result.prediction[mask])) == 1
    excess = [region.excess for region in found]
    assert excess == sorted(excess, reverse=True)


def write(folder, count=2, **settings):
    writer = make_writer('regions', folder, threshold=0.1, min_area=5,
                         **settings)
    results = [blob_result(f'town/{seed}', seed) for seed in range(count)]
    for result in results:
        writer.write(result)
    writer.close()
    return results


def decode(counts, size):
    flat = np.repeat(np.arange(len(counts)) % 2, counts)
    return flat.reshape(size[::-1]).T.astype(bool)


def test_files_list_every_region_worst_first(tmp_path):
    results = write(tmp_path)
    with open(tmp_path / 'regions/entropy.csv', newline='') as file:
        rows = list(csv.DictReader(file))
    count = sum(components(mask, 5).max() for result in results for mask in (
        result.maps['entropy'] >= 0.1, result.prediction == 0,
        result.prediction == 1))
    assert len(rows) == count
    excess = [float(row['excess']) for row in rows]
    assert excess == sorted(excess, reverse=True)
    assert {row['class'] for row in rows} <= set(CLASSES)
    coco = json.loads((tmp_path / 'regions/entropy.coco.json').read_text())
    assert len(coco['annotations']) == count
    assert coco['categories'][0] == dict(id=1, name='road')
    shapes = {type(a['segmentation']) for a in coco['annotations']}
    assert shapes == {list, dict}
    for result, image in zip(results, coco['images']):
        assert image['file_name'] == result.name
        mine = [a for a in coco['annotations']
                if a['image_id'] == image['id'] and a['kind'] == 'uncertain']
        seen = np.zeros(result.prediction.shape, int)
        for entry in mine:
            shape = entry['segmentation']
            mask = (decode(shape['counts'], shape['size'])
                    if isinstance(shape, dict) else pixels_of(
                        [np.reshape(shape[0], (-1, 2)).tolist()], seen.shape))
            assert mask.sum() == entry['area']
            seen += mask
        np.testing.assert_array_equal(
            seen, components(result.maps['entropy'] >= 0.1, 5) > 0)


def test_a_killed_export_of_regions_resumes_to_the_same_files(tmp_path):
    write(tmp_path / 'whole', 3)
    write(tmp_path / 'part', 1)
    write(tmp_path / 'part', 3, resume=True)
    for name in ('entropy.csv', 'entropy.coco.json'):
        assert ((tmp_path / 'whole/regions' / name).read_text() ==
                (tmp_path / 'part/regions' / name).read_text())


@pytest.mark.parametrize('form', ['regions', 'pseudo-labels'])
def test_a_format_without_its_threshold_says_what_to_give(tmp_path, form):
    with pytest.raises(ValueError, match=f"'{form}' needs a threshold of "
                       "'entropy'.*--threshold"):
        make_writer(form, tmp_path, threshold={})


def test_a_threshold_that_no_pixel_can_reach_is_refused(tmp_path):
    with pytest.raises(ValueError, match="1.3 is above all values of 'msp', "
                       'which end at 0.6667.*--scores'):
        make_writer('regions', tmp_path, scores=['entropy', 'msp'],
                    threshold=dict(entropy=0.9, msp=1.3))


def test_pseudo_labels_keep_the_sure_pixels_and_say_the_risk(tmp_path):
    writer = make_writer('pseudo-labels', tmp_path, keep=0.75)
    pairs = []
    for seed in range(3):
        result = make_result(f'town/{seed}', seed)
        rng = np.random.default_rng(seed)
        result.maps['msp'] = rng.uniform(
            0, 0.6, result.prediction.shape).astype(np.float32)
        truth = np.where(rng.uniform(size=result.prediction.shape) < 0.8,
                         result.prediction, 2)
        truth[:2] = 255
        result.ground_truth = truth
        writer.write(result)
        path = tmp_path / f'pseudo-labels/entropy/town/{seed}.png'
        labels = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
        kept = labels != 255
        assert kept.mean() == pytest.approx(0.75, abs=1e-3)
        np.testing.assert_array_equal(labels[kept], result.prediction[kept])
        entropy = result.maps['entropy']
        assert entropy[kept].max() < entropy[~kept].min()
        known = kept & (truth != 255)
        pairs.append(((labels != truth)[known], result.maps['msp'][kept]))
    writer.close()
    said = json.loads((tmp_path / 'pseudo-labels/entropy.json').read_text())
    wrong, expected = (np.concatenate(part) for part in zip(*pairs))
    assert said['risk'] == pytest.approx(100 * wrong.mean(), abs=1e-3)
    assert said['expected_risk'] == pytest.approx(
        100 * expected.mean(), abs=1e-3)
    assert said['images'] == 3 and said['kept'] == pytest.approx(75, abs=0.1)
    with open(tmp_path / 'pseudo-labels/entropy.csv', newline='') as file:
        assert len(list(csv.DictReader(file))) == 3


def test_a_threshold_is_one_number_for_all_images(tmp_path):
    writer = make_writer('pseudo-labels', tmp_path, threshold=0.5)
    for seed in range(2):
        result = make_result(str(seed), seed)
        writer.write(result)
        labels = cv2.imread(str(tmp_path / f'pseudo-labels/entropy/{seed}.png'
                                ), cv2.IMREAD_UNCHANGED)
        np.testing.assert_array_equal(
            labels != 255, result.maps['entropy'] < 0.5)


def test_keep_must_be_a_share(tmp_path):
    with pytest.raises(ValueError, match='keep=90 is not in'):
        make_writer('pseudo-labels', tmp_path, keep=90)


def test_the_risk_is_that_of_the_selective_metric(sketch, base, tmp_path):
    """On the validation set of the config, with its ground truth."""
    cfg = abnn_config(sketch, tmp_path / 'work', base)
    inferencer = ABNNInferencer(cfg, str(base), device='cpu',
                                scores=['entropy'])
    export_maps(inferencer, 'val', tmp_path / 'out', ['pseudo-labels'],
                keep=1.)
    said = json.loads(
        (tmp_path / 'out/pseudo-labels/entropy.json').read_text())
    metric = SelectiveMetric(coverages=(1., ))
    items = list(find_items(inferencer, 'val')[1])
    for item in items:
        metric.process(None, [sample.to_dict() for sample in
                              inferencer.predict([item.load().data])])
    expected = metric.evaluate(len(items))['sel/pooled/msp/risk@100']
    assert said['kept'] == 100
    assert said['risk'] == pytest.approx(expected, abs=1e-3)
    assert said['expected_risk'] is None
