# The paper's job: DeepLabv3+ R50 on MUAD turned Bayesian after the fact.
_base_ = [
    './deeplabv3plus_r50-d8_1xb16-50e_muad-768x768.py',
    './_base_/schedules/abnn_sgd_poly.py'
]
load_from = 'work_dirs/deeplabv3plus_r50-d8_1xb16-50e_muad-768x768/iter_10700.pth'  # noqa: E501
random_prior = dict(
    _delete_=True, type='RandomPriorCrossEntropyLoss')
model = dict(
    type='BayesianEncoderDecoder',
    pretrained=None,
    prediction='posterior_mean',
    posterior=dict(type='BNLPosterior', alpha=0.1, samples=4),
    decode_head=dict(loss_decode=random_prior),
    auxiliary_head=dict(loss_decode=dict(random_prior, loss_weight=0.4)))
optim_wrapper = dict(
    _delete_=True, type='OptimWrapper', optimizer=_base_.abnn_optimizer)
param_scheduler = [dict(_base_.abnn_decay, eta_min=1e-5, end=800)]
train_cfg = dict(
    type='MemberTrainLoop', members=3, max_iters=800, val_interval=800)
default_hooks = dict(checkpoint=dict(interval=200, max_keep_ckpts=1))
