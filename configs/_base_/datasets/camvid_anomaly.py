# CamVid, 480x360, with the classes of held_out unknown in training. The
# environment variable CAMVID may say where it is.
held_out = ('Pedestrian', 'Bicyclist')
dataset_type = 'CamVidAnomalyDataset'
data_root = '{{$CAMVID:data/camvid}}'
crop_size = (224, 288)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(
        type='RandomResize',
        scale=(480, 360),
        ratio_range=(0.5, 1.5),
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
    num_workers=2,
    persistent_workers=True,
    sampler=dict(type='InfiniteSampler', shuffle=True),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='train',
        held_out=held_out,
        pipeline=train_pipeline))
val_dataloader = dict(
    batch_size=1,
    num_workers=2,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='val',
        held_out=held_out,
        pipeline=test_pipeline))
test_dataloader = dict(
    batch_size=1,
    num_workers=2,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='test',
        held_out=held_out,
        pipeline=test_pipeline))

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
