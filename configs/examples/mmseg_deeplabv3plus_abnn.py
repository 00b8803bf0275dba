# Over a config that MMSegmentation ships, with the checkpoint of its zoo.
_base_ = 'mmseg::deeplabv3plus/deeplabv3plus_r50-d8_4xb2-80k_cityscapes-512x1024.py'  # noqa: E501
custom_imports = dict(imports=['abnn_mmseg'], allow_failed_imports=False)
load_from = 'deeplabv3plus_r50-d8_512x1024_80k_cityscapes.pth'
model = dict(
    type='BayesianEncoderDecoder',
    posterior=dict(type='BNLPosterior', alpha=0.1, scope='decode_head'),
    decode_head=dict(loss_decode=dict(
        _delete_=True, type='RandomPriorCrossEntropyLoss')))
optim_wrapper = dict(optimizer=dict(lr=2e-3, weight_decay=1e-4))
train_cfg = dict(type='MemberTrainLoop', members=3, max_iters=800)
