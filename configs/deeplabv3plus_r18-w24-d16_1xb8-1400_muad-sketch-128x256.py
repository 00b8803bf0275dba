# The base of the demo: 1.9 M parameters, 3.8 MB with its convolutions in half
# precision, part of the package. `abnn demo --train` trains it again, on 3,000
# drawings.
#
# The file that ships came from runs with --amp, each from the weights of the
# one before, with seeds 0 to 3: 600 and 400 steps with images resized by 0.75
# to 1.6, cropped and recoloured (PhotoMetricDistortion), then 300 and 130 as
# below, the last with a rate that falls to nothing. Val mIoU (60 drawings)
# 48.8.
_base_ = [
    './_base_/models/deeplabv3plus_r18-d16.py',
    './_base_/datasets/muad_sketch_128x256.py', './_base_/default_runtime.py'
]
model = dict(
    data_preprocessor=dict(size=(128, 256)),
    backbone=dict(base_channels=24),
    decode_head=dict(in_channels=192, c1_in_channels=24))
train_dataloader = dict(batch_size=8)
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='AdamW', lr=2.5e-3, weight_decay=2e-2))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, end=100, by_epoch=False),
    dict(
        type='PolyLR', power=1.0, eta_min=2e-5, begin=100, end=1400,
        by_epoch=False)
]
train_cfg = dict(type='IterBasedTrainLoop', max_iters=1400, val_interval=1400)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
default_hooks = dict(checkpoint=dict(interval=200, max_keep_ckpts=1))
