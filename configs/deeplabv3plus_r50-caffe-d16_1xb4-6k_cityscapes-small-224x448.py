# Base network for Cityscapes at 512x256: a second home to choose settings on,
# small enough for two CPU cores.
_base_ = [
    './_base_/models/deeplabv3plus_r50-caffe-d16.py',
    './_base_/datasets/cityscapes_small.py', './_base_/default_runtime.py'
]
crop_size = (224, 448)
model = dict(
    data_preprocessor=dict(size=crop_size),
    # A ResNet-50 trained on ImageNet, caffe style, RGB.
    backbone=dict(
        init_cfg=dict(
            type='Pretrained',
            checkpoint='open-mmlab://detectron2/resnet50_caffe')),
    decode_head=dict(num_classes=19))
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='SGD', lr=0.01, momentum=0.9, weight_decay=5e-4),
    paramwise_cfg=dict(custom_keys=dict(decode_head=dict(lr_mult=5.))))
param_scheduler = [
    dict(type='PolyLR', eta_min=1e-4, power=0.9, end=6000, by_epoch=False)
]
train_cfg = dict(type='IterBasedTrainLoop', max_iters=6000, val_interval=6000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
default_hooks = dict(checkpoint=dict(interval=100, max_keep_ckpts=1))
