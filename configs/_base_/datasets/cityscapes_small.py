# Cityscapes at 512x256 with the 19 train ids as labels, in img/{train,val} and
# lab/{train,val}. The environment variable CITYSCAPES_SMALL may say where it
# is. It has no OOD labels: test for anomalies with binary_anomaly.py.
dataset_type = 'CityscapesDataset'
data_root = '{{$CITYSCAPES_SMALL:data/cityscapes_small}}'
names = dict(img_suffix='.jpg', seg_map_suffix='.png')
crop_size = (224, 448)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations'),
    dict(
        type='RandomResize',
        scale=(512, 256),
        ratio_range=(0.75, 2.0),
        keep_ratio=True),
    dict(type='RandomCrop', crop_size=crop_size, cat_max_ratio=0.75),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PhotoMetricDistortion'),
    dict(type='PackSegInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations'),
    dict(type='PackSegInputs'),
]

train_dataloader = dict(
    batch_size=4,
    num_workers=2,
    persistent_workers=True,
    sampler=dict(type='InfiniteSampler', shuffle=True),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        data_prefix=dict(img_path='img/train', seg_map_path='lab/train'),
        pipeline=train_pipeline,
        **names))
val_dataloader = dict(
    batch_size=1,
    num_workers=2,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        data_prefix=dict(img_path='img/val', seg_map_path='lab/val'),
        pipeline=test_pipeline,
        **names))
test_dataloader = val_dataloader

val_evaluator = [
    dict(type='IoUMetric', iou_metrics=['mIoU']),
    dict(type='CalibrationMetric'),
]
test_evaluator = [
    dict(type='IoUMetric', iou_metrics=['mIoU']),
    dict(type='CalibrationMetric'),
    dict(type='SelectiveMetric', scores=('entropy', )),
]
