# ABNN on MUAD-sketch: three members in about a minute on two CPU cores.
_base_ = './deeplabv3plus_r18-d16_1xb4-1100_muad-sketch-128x256.py'
load_from = 'work_dirs/deeplabv3plus_r18-d16_1xb4-1100_muad-sketch-128x256/iter_1100.pth'  # noqa: E501
num_members = 3
model = dict(
    type='BayesianEncoderDecoder',
    posterior=dict(type='BNLPosterior', alpha=0.1, samples=4),
    decode_head=dict(
        loss_decode=dict(
            _delete_=True,
            type='RandomPriorCrossEntropyLoss',
            num_classes=15)))
# MAP: weight decay is the Gaussian prior on gamma and beta.
optim_wrapper = dict(
    optimizer=dict(
        _delete_=True,
        type='SGD',
        lr=2e-3,
        momentum=0.9,
        nesterov=True,
        weight_decay=1e-4))
param_scheduler = [dict(type='PolyLR', power=0.9, end=60, by_epoch=False)]
# The closing table validates; no need to do it while training.
train_cfg = dict(max_iters=60, val_begin=1000)
