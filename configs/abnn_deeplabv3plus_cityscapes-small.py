# ABNN around a Cityscapes base at 512x256, by the recipe of CamVid: the
# second home that shows whether its settings travel.
_base_ = [
    './deeplabv3plus_r50-caffe-d16_1xb4-6k_cityscapes-small-224x448.py',
    './_base_/schedules/abnn_sgd_poly.py'
]
load_from = '{{$AWAY_RUNS:work_dirs/away}}/base_0/iter_6000.pth'
whole_image = (256, 512)
model = dict(
    type='BayesianEncoderDecoder',
    data_preprocessor=dict(size=whole_image),
    backbone=dict(init_cfg=None),
    finetune='all',
    prediction='base',
    posterior=dict(
        type='BNLPosterior',
        alpha=0.4,
        scope=['backbone.layer2', 'backbone.layer3'],
        samples=4,
        views=dict(flips=('horizontal', ), scales=(0.75, ))),
    decode_head=dict(
        loss_decode=dict(
            _delete_=True,
            type='RandomPriorCrossEntropyLoss',
            weight=1.5)))
train_dataloader = dict(
    batch_size=2,
    dataset=dict(pipeline=[
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnnotations'),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PhotoMetricDistortion'),
        dict(type='PackSegInputs'),
    ]))
optim_wrapper = dict(
    _delete_=True,
    type='OptimWrapper',
    optimizer=dict(_base_.abnn_optimizer, lr=0.02))
param_scheduler = [dict(_base_.abnn_decay, end=48)]
# tools/compare.py measures; validating every member would take far longer
# than training it.
validate_members = False
train_cfg = dict(
    _delete_=True,
    type='MemberTrainLoop',
    members=3,
    max_iters=48,
    val_begin=1000)
