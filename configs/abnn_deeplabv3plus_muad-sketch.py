# ABNN on MUAD-sketch, as the demo shows it: three members in about a minute on
# two CPU cores, each of twelve networks with a look of its own.
_base_ = [
    './deeplabv3plus_r18-w24-d16_1xb8-1400_muad-sketch-128x256.py',
    './_base_/schedules/abnn_sgd_poly.py'
]
load_from = 'work_dirs/deeplabv3plus_r18-w24-d16_1xb8-1400_muad-sketch-128x256/iter_1400.pth'  # noqa: E501
model = dict(
    type='BayesianEncoderDecoder',
    posterior=dict(
        type='BNLPosterior',
        alpha=0.1,
        samples=4,
        views=dict(flips=('horizontal', ), scales=(0.75, ))),
    prediction='centre',
    decode_head=dict(
        loss_decode=dict(
            _delete_=True,
            type='RandomPriorCrossEntropyLoss')))
train_dataloader = dict(batch_size=4)
optim_wrapper = dict(
    _delete_=True, type='OptimWrapper', optimizer=dict(
        _base_.abnn_optimizer, lr=5e-3))
param_scheduler = [dict(_base_.abnn_decay, end=60)]
# The closing table validates; no need to do it while training.
train_cfg = dict(
    type='MemberTrainLoop', members=3, max_iters=60, val_begin=1000)
