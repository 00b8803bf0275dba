# What people use today and ABNN, on CamVid-Anomaly: `make camvid` trains what
# is missing and runs this. Rates of dropout were chosen on validation images.
_base_ = [
    './_base_/datasets/camvid_anomaly.py', './_base_/default_runtime.py'
]
runs = '{{$CAMVID_RUNS:work_dirs/camvid}}'
work_dir = f'{runs}/comparison'
base = 'abnn_mmseg::deeplabv3plus_r50-caffe-d16_1xb4-800_camvid-224x288.py'
abnn = 'abnn_mmseg::abnn_deeplabv3plus_camvid.py'
trained = [f'{runs}/base_{seed}/iter_800.pth' for seed in range(3)]
members = [f'{runs}/abnn_{seed}/members.pth' for seed in range(3)]

test_sets = dict(test=dict())
test_evaluator = [
    dict(type='IoUMetric', iou_metrics=['mIoU']),
    dict(type='CalibrationMetric'),
    dict(
        type='AnomalyMetric',
        protocols=('pooled', 'per_image'),
        scores=('msp', 'entropy', 'mutual_information', 'max_logit',
                'energy')),
]
reference = 'base'
figure = dict(images=3, score='entropy')
views = dict(flips=('horizontal', ), scales=(0.75, ))

methods = [
    dict(name='base', config=base, checkpoints=trained[:1]),
    dict(
        name='MC dropout, head',
        config=base,
        checkpoints=trained[:1],
        posterior=dict(type='DropoutPosterior', rate=0.5, samples=12)),
    dict(
        name='MC dropout, stages',
        config=base,
        checkpoints=trained[:1],
        posterior=dict(
            type='DropoutPosterior',
            modules=['backbone.layer3', 'backbone.layer4', '*.dropout'],
            rate=0.2,
            samples=12)),
    dict(
        name='TTA',
        config=base,
        checkpoints=trained[:1],
        posterior=dict(type='TTAPosterior', scales=(0.75, ))),
    dict(
        name='Laplace',
        config=base,
        checkpoints=[trained[0], f'{runs}/laplace/laplace.pth'],
        posterior=dict(type='LaplacePosterior', samples=12, views=views)),
    dict(
        name='SWAG',
        config=base,
        checkpoints=[trained[0], f'{runs}/swag/swag.pth'],
        posterior=dict(type='SWAGPosterior', samples=12, views=views)),
    dict(
        name='ensemble of 3',
        config=base,
        checkpoints=trained,
        posterior=dict(type='EnsemblePosterior')),
    dict(
        name='student',
        config=abnn,
        checkpoints=[trained[0], f'{runs}/student/student.pth'],
        posterior=dict(type='DistilledPosterior')),
    dict(
        name='student, norms',
        config=abnn,
        checkpoints=[trained[0], f'{runs}/student_norms/student.pth'],
        posterior=dict(type='DistilledPosterior'),
        variants={
            'base': dict(prediction='base'),
            'its own class map': dict(prediction='posterior_mean')
        }),
] + [
    # Other members and other draws: the spread is that of both.
    dict(
        name=f'ABNN {count}, seed {seed}',
        group=f'ABNN {count}',
        config=abnn,
        checkpoints=[trained[0], members[seed]],
        options={
            'model.posterior.seed': seed,
            'model.posterior.networks': count
        },
        variants={
            # The members without noise are the same for any number of draws.
            **(dict(centre=dict(prediction='centre')) if count == 4 else {}),
            'base': dict(prediction='base'),
            'posterior mean': dict(prediction='posterior_mean')
        }) for count in (4, 12) for seed in range(3)
]
