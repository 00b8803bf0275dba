# Away from home: methods around a Cityscapes base, on two road-anomaly sets
# that it never saw, and on its own validation images for accuracy. `make away`
# trains what is missing and runs this.
_base_ = ['./_base_/datasets/anomaly_dev.py', './_base_/default_runtime.py']
runs = '{{$AWAY_RUNS:work_dirs/away}}'
work_dir = f'{runs}/comparison'
base = 'abnn_mmseg::deeplabv3plus_r50-caffe-d16_1xb4-6k_cityscapes-small-224x448.py'  # noqa: E501
abnn = 'abnn_mmseg::abnn_deeplabv3plus_cityscapes-small.py'
listed = '{{$AWAY_SEEDS:0,1,2}}'
seeds = [int(seed) for seed in listed.split(',')]
trained = [f'{runs}/base_0/iter_6000.pth']

test_evaluator = [
    dict(type='IoUMetric', iou_metrics=['mIoU']),
    dict(type='CalibrationMetric', protocols=('pooled', )),
    dict(type='AnomalyMetric', protocols=('pooled', ),
         scores=('entropy', 'energy')),
]
reference = 'base'
views = dict(flips=('horizontal', ), scales=(0.75, ))
figure = dict(images=3, score='entropy')

methods = [
    dict(name='base', config=base, checkpoints=trained),
    dict(
        name='TTA',
        config=base,
        checkpoints=trained,
        posterior=dict(type='TTAPosterior', scales=(0.75, ))),
    dict(
        name='MC dropout, head',
        config=base,
        checkpoints=trained,
        posterior=dict(type='DropoutPosterior', rate=0.5, samples=12)),
    dict(
        name='Laplace',
        config=base,
        checkpoints=[*trained, f'{runs}/laplace/laplace.pth'],
        posterior=dict(type='LaplacePosterior', samples=12, views=views)),
    dict(
        name='SWAG',
        config=base,
        checkpoints=[*trained, f'{runs}/swag/swag.pth'],
        posterior=dict(type='SWAGPosterior', samples=12, views=views)),
    dict(
        name='student',
        config=abnn,
        checkpoints=[*trained, f'{runs}/student/student.pth'],
        posterior=dict(type='DistilledPosterior')),
    dict(
        name='student, norms',
        config=abnn,
        checkpoints=[*trained, f'{runs}/student_norms/student.pth'],
        posterior=dict(type='DistilledPosterior'),
        variants={
            'base': dict(prediction='base'),
            'its own class map': dict(prediction='posterior_mean')
        }),
    dict(
        name='ABNN 12, tolerance 0.02',
        config=abnn,
        checkpoints=[*trained, f'{runs}/abnn_{seeds[0]}/members.pth'],
        options={
            'model.posterior.seed': seeds[0],
            'model.posterior.tolerance': 0.02
        }),
] + [
    # Other members and other draws: the spread is that of both.
    dict(
        name=f'ABNN {count}, seed {seed}',
        group=f'ABNN {count}',
        config=abnn,
        checkpoints=[*trained, f'{runs}/abnn_{seed}/members.pth'],
        options={
            'model.posterior.seed': seed,
            'model.posterior.networks': count
        },
        variants={
            # The members without noise are the same for any number of draws.
            **(dict(centre=dict(prediction='centre')) if count == 4 else {}),
            'base': dict(prediction='base'),
            'posterior mean': dict(prediction='posterior_mean')
        }) for count in (4, 12) for seed in seeds
]
