# MUAD, 15 classes, 1024x2048, OOD labels kept. The 19-class protocol:
# protocol='19' in each dataset, and 19 outputs of the model.
dataset_type = 'MUADDataset'
data_root = 'data/muad'
crop_size = (768, 768)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(
        type='RandomResize',
        scale=(2048, 1024),
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
        split='test_ood',
        pipeline=test_pipeline))
# For tools/test.py --datasets; the last four are in adverse weather.
test_sets = dict(
    test_id=dict(split='test_id'),
    test_ood=dict(split='test_ood'),
    test_id_low_adv=dict(split='test_id_low_adv'),
    test_id_high_adv=dict(split='test_id_high_adv'),
    test_ood_low_adv=dict(split='test_ood_low_adv'),
    test_ood_high_adv=dict(split='test_ood_high_adv'))

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
