# The base of the demo, which ships with the package: 1.9 M parameters, 3.7 MB
# in half precision. `abnn demo --train` makes it again.
_base_ = [
    './_base_/models/deeplabv3plus_r18-d16.py',
    './_base_/datasets/muad_sketch_128x256.py', './_base_/default_runtime.py'
]
model = dict(
    data_preprocessor=dict(size=(128, 256)),
    backbone=dict(base_channels=24),
    decode_head=dict(in_channels=192, c1_in_channels=24))
train_dataloader = dict(
    batch_size=8,
    dataset=dict(pipeline=[
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnomalyAnnotations'),
        dict(
            type='RandomResize',
            scale=(256, 128),
            ratio_range=(0.75, 1.6),
            keep_ratio=True),
        dict(type='RandomCrop', crop_size=(128, 256)),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PhotoMetricDistortion'),
        dict(type='PackAnomalyInputs'),
    ]))
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=3e-3, weight_decay=2e-2))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, end=100, by_epoch=False),
    dict(type='PolyLR', power=0.9, begin=100, end=3000, by_epoch=False)
]
train_cfg = dict(type='IterBasedTrainLoop', max_iters=3000, val_interval=3000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
default_hooks = dict(checkpoint=dict(interval=200, max_keep_ckpts=1))
