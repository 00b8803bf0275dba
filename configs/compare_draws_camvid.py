# How much the maps of four networks depend on the seed of their noise, by how
# the noise is drawn, and what early stopping saves: around the CamVid base,
# on two road-anomaly sets (docs/choosing.md).
_base_ = './compare_student_camvid.py'
runs = '{{$CAMVID_RUNS:work_dirs/camvid}}'
work_dir = f'{runs}/comparison_draws'
far = _base_.far
abnn = _base_.abnn
trained = [_base_.trained, f'{runs}/abnn_0/members.pth']
test_sets = dict(
    _delete_=True,
    roadanomaly=dict(_base_.masks, data_root=f'{far}/roadanomaly'),
    fs_static=dict(_base_.masks, data_root=f'{far}/fs_static'))
test_evaluator = [
    dict(type='AnomalyMetric', protocols=('pooled', ), scores=('entropy', ))
]
figure = dict(images=1)
reference = '12 networks'
draws = {
    'pairs': dict(),
    'independent': dict(antithetic=False),
}


def options(**posterior):
    """Options of a method; only the maps matter."""
    return {
        'model.prediction': 'posterior_mean',
        **{f'model.posterior.{key}': value
           for key, value in posterior.items()}
    }


methods = [
    dict(
        name='12 networks' if tolerance is None else
        f'12 networks, tolerance {tolerance}',
        config=abnn,
        checkpoints=trained,
        options=options(tolerance=tolerance))
    for tolerance in (None, 0.09, 0.06)
] + [
    dict(
        name=f'4 networks, {name}, seed {seed}',
        group=f'4 networks, {name}',
        config=abnn,
        checkpoints=trained,
        options=options(networks=4, seed=seed, **how))
    for name, how in draws.items() for seed in range(6)
]
