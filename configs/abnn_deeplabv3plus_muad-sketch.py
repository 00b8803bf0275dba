# ABNN on MUAD-sketch, as the demo shows it: three members in about a minute on
# two CPU cores, each of twelve networks with a look of its own. The class map
# is the base's.
_base_ = [
    './deeplabv3plus_r18-w24-d16_1xb8-1400_muad-sketch-128x256.py',
    './_base_/schedules/abnn_sgd_poly.py'
]
load_from = 'work_dirs/deeplabv3plus_r18-w24-d16_1xb8-1400_muad-sketch-128x256/iter_1400.pth'  # noqa: E501
model = dict(
    type='BayesianEncoderDecoder',
    posterior=dict(
        type='BNLPosterior',
        alpha=0.2,
        scope=['backbone.layer2', 'backbone.layer3'],
        samples=4,
        views=dict(flips=('horizontal', ), scales=(0.75, ))),
    finetune='all',
    prediction='base',
    decode_head=dict(
        loss_decode=dict(
            _delete_=True,
            type='RandomPriorCrossEntropyLoss',
            weight=1.5)))
train_dataloader = dict(
    batch_size=4,
    dataset=dict(pipeline=[
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnomalyAnnotations'),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PhotoMetricDistortion'),
        dict(type='PackAnomalyInputs'),
    ]))
optim_wrapper = dict(
    _delete_=True, type='OptimWrapper', optimizer=dict(
        _base_.abnn_optimizer, lr=0.01))
param_scheduler = [dict(_base_.abnn_decay, end=48)]
# The closing table validates; no need to do it while training.
train_cfg = dict(
    type='MemberTrainLoop', members=3, max_iters=48, val_begin=1000)
