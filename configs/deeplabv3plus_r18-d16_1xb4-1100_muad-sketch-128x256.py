# A base for MUAD-sketch, wider and shorter trained than the one of the demo.
_base_ = [
    './_base_/models/deeplabv3plus_r18-d16.py',
    './_base_/datasets/muad_sketch_128x256.py', './_base_/default_runtime.py'
]
model = dict(data_preprocessor=dict(size=(128, 256)))
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=5e-3, weight_decay=2e-2))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, end=50, by_epoch=False),
    dict(type='PolyLR', power=0.9, begin=50, end=1100, by_epoch=False)
]
train_cfg = dict(type='IterBasedTrainLoop', max_iters=1100, val_interval=1100)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
default_hooks = dict(checkpoint=dict(interval=100, max_keep_ckpts=1))
