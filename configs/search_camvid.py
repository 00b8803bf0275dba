# What is tried on CamVid's validation images, in order of cost: draws around
# the base, then what a training changes, one thing after the other.
_base_ = './abnn_deeplabv3plus_camvid.py'
work_dir = '{{$CAMVID_RUNS:work_dirs/camvid}}/search'
late = ['backbone.layer4', 'decode_head']
loss = 'model.decode_head.loss_decode'
rate = 'optim_wrapper.optimizer.lr'
search = dict(
    members=2,
    images=17,
    train=[
        {'train_cfg.max_iters': [0], 'model.posterior.samples': [4]},
        {'train_cfg.max_iters': [50, 100], rate: [2e-3]},
        {'train_cfg.max_iters': [100], rate: [5e-4, 8e-3]},
        {'train_cfg.max_iters': [100], f'{loss}.rule': ['pair', 'none']},
        {'train_cfg.max_iters': [100], f'{loss}.weight': [1.5, 7.]},
        {'train_cfg.max_iters': [100], 'model.statistics': ['update']},
    ],
    test=[
        {'model.posterior.alpha': [0.1, 0.15, 0.2]},
        {'model.posterior.alpha': [0.2, 0.3], 'model.posterior.scope': [late]},
    ])
