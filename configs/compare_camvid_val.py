# How the rates of dropout were chosen, and what per-pixel noise does, on
# validation images: tools/compare.py, --images 17.
_base_ = './compare_camvid.py'
work_dir = '{{$CAMVID_RUNS:work_dirs/camvid}}/comparison_val'
test_sets = dict(_delete_=True, val=dict(split='val'))
network = _base_.methods[0]
rates = dict(head=(0.1, 0.3, 0.5), stages=(0.1, 0.2, 0.3, 0.4))

methods = [
    network,
    *(dict(
        method,
        name=f'{method.name}, {rate}',
        posterior=dict(method.posterior, rate=rate, samples=6))
      for method in _base_.methods[1:3] for rate in rates[method.name[12:]]),
    dict(
        network,
        name='per-pixel noise around the base',
        config=_base_.abnn,
        options={
            'model.prediction': 'posterior_mean',
            'model.posterior.noise': 'element',
            'model.posterior.alpha': 0.2,
            'model.posterior.scope': 'backbone',
            'model.posterior.samples': 6
        }),
]
