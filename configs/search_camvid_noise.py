# Where noise should live and how strong it should be, tried on CamVid's
# validation images: draws around the base, without any training.
_base_ = './abnn_deeplabv3plus_camvid.py'
work_dir = '{{$CAMVID_RUNS:work_dirs/camvid}}/search'
model = dict(
    posterior=dict(samples=8, candidates=None, antithetic=True, views=None))
alpha, scope = 'model.posterior.alpha', 'model.posterior.scope'
stage = 'backbone.layer{}'.format
search = dict(
    images=9,
    train=[{'train_cfg.max_iters': [0]}],
    test=[
        {scope: ['backbone'], alpha: [0.2]},
        {scope: [stage(2)], alpha: [0.4, 0.5, 0.6]},
        {scope: [stage(3)], alpha: [0.4]},
        {scope: [stage(2)], alpha: [0.5], 'model.posterior.seed': [1]},
    ])
