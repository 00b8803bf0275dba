# A student beside its base and its teacher, on CamVid-Anomaly and, where the
# environment variable ANOMALY_DEV says where it is, on images that are far
# from the training data (docs/student.md).
_base_ = './compare_camvid.py'
runs = '{{$CAMVID_RUNS:work_dirs/camvid}}'
work_dir = f'{runs}/comparison_student'
far = '{{$ANOMALY_DEV:data/anomaly_dev}}'
base = _base_.base
abnn = _base_.abnn
trained = f'{runs}/base_0/iter_800.pth'
views = dict(flips=('horizontal', ), scales=(0.75, ))
# Masks without classes: those of the model stand for themselves.
masks = dict(
    type='BinaryAnomalyDataset',
    data_prefix=dict(img_path='images', seg_map_path='labels'),
    metainfo=dict(classes=('Sky', 'Building', 'Pole', 'Road', 'Pavement',
                           'Tree', 'SignSymbol', 'Fence', 'Car')))
test_sets = dict(
    test=dict(), road=dict(masks, data_root=f'{far}/roadanomaly'))
reference = 'base'
test_evaluator = [
    dict(type='IoUMetric', iou_metrics=['mIoU']),
    dict(
        type='AnomalyMetric',
        protocols=('pooled', ),
        scores=('entropy', 'mutual_information', 'energy')),
]
methods = [
    dict(name='base', config=base, checkpoints=[trained]),
    dict(
        name='TTA',
        config=base,
        checkpoints=[trained],
        posterior=dict(type='TTAPosterior', scales=(0.75, ))),
    dict(
        name='teacher',
        config=abnn,
        checkpoints=[trained, f'{runs}/abnn_0/members.pth'],
        options={
            'model.prediction': 'base',
            'model.posterior.views': views
        }),
    dict(
        name='student',
        config=abnn,
        checkpoints=[trained, f'{runs}/student/student.pth'],
        options={'model.prediction': 'base'},
        posterior=dict(type='DistilledPosterior')),
]
