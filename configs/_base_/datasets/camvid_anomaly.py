# CamVid, 480x360, with the classes of held_out unknown in training. The
# environment variable CAMVID may say where it is.
_base_ = './anomaly.py'
source = dict(
    type='CamVidAnomalyDataset',
    data_root='{{$CAMVID:data/camvid}}',
    held_out=('Pedestrian', 'Bicyclist'))
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(
        type='RandomResize',
        scale=(480, 360),
        ratio_range=(0.5, 1.5),
        keep_ratio=True),
    dict(type='RandomCrop', crop_size=(224, 288), cat_max_ratio=0.75),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PhotoMetricDistortion'),
    dict(type='PackAnomalyInputs'),
]

train_dataloader = dict(
    num_workers=2, dataset=dict(**source, pipeline=train_pipeline))
val_dataloader = dict(num_workers=2, dataset=source)
test_dataloader = dict(num_workers=2, dataset=source)
