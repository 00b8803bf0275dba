# Loaders, test transforms and metrics that datasets with OOD labels share.
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
    dataset=dict(split='train'))
val_dataloader = dict(
    batch_size=1,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(split='val', pipeline=test_pipeline))
test_dataloader = dict(
    batch_size=1,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(split='test', pipeline=test_pipeline))

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
