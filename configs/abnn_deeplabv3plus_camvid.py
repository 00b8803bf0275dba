# ABNN on CamVid-Anomaly: three members in a tenth of the time that a deep
# ensemble of three needs. Its settings were chosen on drives that the base had
# not seen (docs/comparison.md). Noise lives in two stages in the middle of the
# backbone, all norms train around it, and they train on whole images as they
# come in testing: norms of a network trained on crops have something to learn
# there. The class map is the base's.
_base_ = [
    './deeplabv3plus_r50-caffe-d16_1xb4-800_camvid-224x288.py',
    './_base_/schedules/abnn_sgd_poly.py'
]
load_from = '{{$CAMVID_RUNS:work_dirs/camvid}}/base_0/iter_800.pth'
whole_image = (360, 480)
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
        dict(type='LoadAnomalyAnnotations'),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PhotoMetricDistortion'),
        dict(type='PackAnomalyInputs'),
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
    type='MemberTrainLoop', members=3, max_iters=48, val_begin=1000)
