# ABNN on CamVid-Anomaly: three members in a tenth of the time that a deep
# ensemble of three needs.
_base_ = [
    './deeplabv3plus_r50-caffe-d16_1xb4-800_camvid-224x288.py',
    './_base_/schedules/abnn_sgd_poly.py'
]
load_from = '{{$CAMVID_RUNS:work_dirs/camvid}}/base_0/iter_800.pth'
num_members = 3
model = dict(
    type='BayesianEncoderDecoder',
    backbone=dict(init_cfg=None),
    posterior=dict(type='BNLPosterior', alpha=0.15, samples=2),
    decode_head=dict(
        loss_decode=dict(
            _delete_=True,
            type='RandomPriorCrossEntropyLoss',
            num_classes=9)))
optim_wrapper = dict(
    _delete_=True, type='OptimWrapper', optimizer=_base_.abnn_optimizer)
param_scheduler = [dict(_base_.abnn_decay, end=100)]
# tools/compare.py measures; validating every member would take far longer
# than training it.
validate_members = False
train_cfg = dict(max_iters=100, val_begin=1000)
default_hooks = dict(checkpoint=dict(interval=50, max_keep_ckpts=1))
