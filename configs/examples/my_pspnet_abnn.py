# Over your own config, by path: ABNN's whole change is ten lines.
_base_ = './my_pspnet.py'
custom_imports = dict(imports=['abnn_mmseg'], allow_failed_imports=False)
load_from = 'my_pspnet.pth'
model = dict(
    type='BayesianEncoderDecoder',
    posterior=dict(type='BNLPosterior', alpha=0.1, samples=4),
    decode_head=dict(loss_decode=dict(
        _delete_=True, type='RandomPriorCrossEntropyLoss')))
optim_wrapper = dict(optimizer=dict(lr=2e-3, weight_decay=1e-4))
train_cfg = dict(type='MemberTrainLoop', members=3, max_iters=800)
