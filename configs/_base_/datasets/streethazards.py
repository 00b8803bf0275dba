# StreetHazards, 13 classes, 720x1280.
_base_ = './anomaly.py'
source = dict(type='StreetHazardsDataset', data_root='data/streethazards')
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(
        type='RandomResize',
        scale=(1280, 720),
        ratio_range=(0.5, 2.0),
        keep_ratio=True),
    dict(type='RandomCrop', crop_size=(512, 1024), cat_max_ratio=0.75),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PhotoMetricDistortion'),
    dict(type='PackAnomalyInputs'),
]

train_dataloader = dict(dataset=dict(**source, pipeline=train_pipeline))
val_dataloader = dict(dataset=source)
test_dataloader = dict(dataset=source)
