# MUAD-sketch: small drawn scenes with the labels and folders of MUAD. Make it
# with: python tools/make_muad_sketch.py data/muad_sketch
dataset_type = 'MUADDataset'
data_root = 'data/muad_sketch'
crop_size = (128, 256)
# Light augmentation: every image is used whole.
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackAnomalyInputs'),
]
# Images are tested at full size, so labels need no resizing.
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(type='PackAnomalyInputs'),
]

# Two cores have none to spare for loading.
train_dataloader = dict(
    batch_size=4,
    num_workers=0,
    sampler=dict(type='InfiniteSampler', shuffle=True),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='train',
        pipeline=train_pipeline))
val_dataloader = dict(
    batch_size=1,
    num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='val',
        pipeline=test_pipeline))
test_dataloader = dict(
    batch_size=1,
    num_workers=0,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        split='test_ood',
        pipeline=test_pipeline))
# For tools/test.py --datasets.
test_sets = dict(
    test_id=dict(split='test_id'), test_ood=dict(split='test_ood'))

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
