# ABNN on MUAD-sketch: three members in about a minute on two CPU cores.
_base_ = [
    './deeplabv3plus_r18-d16_1xb4-1100_muad-sketch-128x256.py',
    './_base_/schedules/abnn_sgd_poly.py'
]
load_from = 'work_dirs/deeplabv3plus_r18-d16_1xb4-1100_muad-sketch-128x256/iter_1100.pth'  # noqa: E501
model = dict(
    type='BayesianEncoderDecoder',
    posterior=dict(type='BNLPosterior', alpha=0.1, samples=4),
    decode_head=dict(
        loss_decode=dict(
            _delete_=True,
            type='RandomPriorCrossEntropyLoss')))
optim_wrapper = dict(
    _delete_=True, type='OptimWrapper', optimizer=_base_.abnn_optimizer)
param_scheduler = [dict(_base_.abnn_decay, end=60)]
# The closing table validates; no need to do it while training.
train_cfg = dict(
    type='MemberTrainLoop', members=3, max_iters=60, val_begin=1000)
