# BDD-Anomaly, 17 classes, 720x1280. First tools/make_bdd_anomaly.py DATA_ROOT.
dataset_type = 'BDDAnomalyDataset'
data_root = 'data/bdd100k'
crop_size = (512, 1024)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(
        type='RandomResize',
        scale=(1280, 720),
        ratio_range=(0.5, 2.0),
        keep_ratio=True),
    dict(type='RandomCrop', crop_size=crop_size, cat_max_ratio=0.75),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PhotoMetricDistortion'),
    dict(type='PackAnomalyInputs'),
]
# Images are tested at full size, so labels need no resizing.
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(type='PackAnomalyInputs'),
]

train_dataloader = dict(
    batch_size=4,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type='InfiniteSampler', shuffle=True),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='train',
        pipeline=train_pipeline))
val_dataloader = dict(
    batch_size=1,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='val',
        pipeline=test_pipeline))
test_dataloader = dict(
    batch_size=1,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='test',
        pipeline=test_pipeline))
# For tools/test.py --datasets. The val split is the in-distribution test set:
# it has no OOD image.
test_sets = dict(test_id=dict(split='val'), test_ood=dict(split='test'))

val_evaluator = [
    dict(type='IoUMetric', iou_metrics=['mIoU']),
    dict(type='CalibrationMetric'),
]
test_evaluator = [
    dict(type='IoUMetric', iou_metrics=['mIoU']),
    dict(type='CalibrationMetric'),
    dict(
        type='AnomalyMetric',
        scores=('msp', 'entropy', 'mutual_information')),
    dict(type='SelectiveMetric', scores=('entropy', )),
]
