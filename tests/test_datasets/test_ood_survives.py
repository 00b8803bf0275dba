"""Claims: losses and mIoU never see OOD pixels, anomaly metrics always do."""
import os.path as osp

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner
from mmseg.evaluation import IoUMetric
from mmseg.models.losses import CrossEntropyLoss
from mmseg.registry import TRANSFORMS

from abnn_mmseg.datasets import MUADDataset

LOAD = [dict(type='LoadImageFromFile'), dict(type='LoadAnomalyAnnotations')]
PACK = [dict(type='PackAnomalyInputs')]


def load_config(name):
    folder = osp.join(osp.dirname(__file__), '../../configs/_base_/datasets')
    return Config.fromfile(osp.join(folder, f'{name}.py'))


def muad_samples(root, protocol):
    dataset = MUADDataset(
        split='test_ood',
        protocol=protocol,
        data_root=str(root),
        pipeline=LOAD + PACK)
    return dataset, [dataset[i]['data_samples'] for i in range(len(dataset))]


@pytest.mark.parametrize('protocol', ['15', '19'])
def test_loss_sees_only_train_ids_and_ignores_ood(muad, protocol):
    _, samples = muad_samples(muad, protocol)
    classes = int(protocol)
    label = torch.stack([s.gt_sem_seg.data[0] for s in samples])
    assert set(label.unique().tolist()) <= {*range(classes), 255}
    logits = torch.randn(
        len(samples), classes, *label.shape[1:], requires_grad=True)
    loss = CrossEntropyLoss(avg_non_ignore=True)(
        logits, label, ignore_index=255)
    loss.backward()
    anomaly = torch.stack([s.gt_anomaly.data[0] for s in samples])
    touched = logits.grad.abs().sum(dim=1) > 0
    assert torch.equal(touched, anomaly == 0)


@pytest.mark.parametrize('protocol', ['15', '19'])
def test_a_perfect_model_has_miou_100_whatever_it_says_on_ood(muad, protocol):
    dataset, samples = muad_samples(muad, protocol)
    metric = IoUMetric(iou_metrics=['mIoU'])
    metric.dataset_meta = dataset.metainfo
    for sample in samples:
        guess = sample.gt_sem_seg.data.clone()
        guess[guess == 255] = 3
        metric.process({}, [
            dict(
                pred_sem_seg=dict(data=guess),
                gt_sem_seg=dict(data=sample.gt_sem_seg.data),
                img_path='')
        ])
    assert metric.evaluate(len(samples))['mIoU'] == 100


def test_geometric_transforms_move_both_maps_together(muad):
    dataset = MUADDataset(
        split='train',
        data_root=str(muad),
        pipeline=[
            *LOAD,
            dict(
                type='RandomResize',
                scale=(46, 8),
                ratio_range=(0.5, 2.0),
                keep_ratio=True),
            dict(type='RandomCrop', crop_size=(8, 16), cat_max_ratio=0.75),
            dict(type='RandomFlip', prob=0.5),
            dict(type='RandomRotate', prob=0.5, degree=20),
            dict(type='PhotoMetricDistortion'), *PACK
        ])
    seen = set()
    for _ in range(20):
        sample = dataset[0]['data_samples']
        seg, anomaly = sample.gt_sem_seg.data, sample.gt_anomaly.data
        assert torch.equal(seg == 255, anomaly != 0)
        assert set(anomaly.unique().tolist()) <= {0, 1, 255}
        seen |= set(anomaly.unique().tolist())
    assert 1 in seen


def test_labels_loaded_after_a_resize_keep_their_size(muad):
    dataset = MUADDataset(
        split='test_ood',
        data_root=str(muad),
        pipeline=[
            LOAD[0],
            dict(type='Resize', scale=(46, 8)), LOAD[1], *PACK
        ])
    sample = dataset[0]
    assert sample['inputs'].shape == (3, 8, 46)
    assert sample['data_samples'].gt_anomaly.shape == (4, 23)


def test_plain_mmseg_datasets_are_refused_with_the_remedy():
    transform = TRANSFORMS.build(LOAD[1])
    with pytest.raises(ValueError, match='Use LoadAnnotations'):
        transform(dict(seg_map_path='x.png', seg_fields=[]))


@pytest.mark.parametrize('name', [
    'muad_1024x2048', 'muad_sketch_128x256', 'streethazards', 'bdd_anomaly',
    'camvid_anomaly', 'cityscapes', 'binary_anomaly', 'road_anomaly',
    'fishyscapes_laf', 'smiyc_anomaly', 'smiyc_obstacle'
])
def test_every_dataset_config_builds_its_pipelines(name):
    cfg = load_config(name)
    loaders = [key for key in cfg if key.endswith('_dataloader')]
    assert 'test_dataloader' in loaders
    for loader in loaders:
        for step in cfg[loader].dataset.pipeline:
            TRANSFORMS.build(step)


def test_a_config_gives_batches_without_ood_ids(muad):
    loader = load_config('muad_sketch_128x256').train_dataloader
    loader.update(num_workers=0, persistent_workers=False, batch_size=2)
    loader.dataset.data_root = str(muad)
    batch = next(iter(Runner.build_dataloader(loader, seed=0)))
    label = batch['data_samples'][0].gt_sem_seg.data
    assert np.isin(label.numpy(), [*range(15), 255]).all()
