# What fine-tuning should look like, tried on a drive that the base has not
# seen: one thing at a time is changed in the recipe.
_base_ = './abnn_deeplabv3plus_camvid-unseen-drive.py'
work_dir = '{{$CAMVID_RUNS:work_dirs/camvid}}/search'
alpha, scope = 'model.posterior.alpha', 'model.posterior.scope'
lr = 'optim_wrapper.optimizer.lr'
loss = 'model.decode_head.loss_decode'
model = dict(
    statistics='frozen',
    posterior=dict(samples=6),
    decode_head=dict(loss_decode=dict(rule='sqrt')))
search = dict(
    members=2,
    images=24,
    train=[
        {},
        {lr: [0.005, 0.01, 0.04]},
        {alpha: [0.3, 0.5]},
        {'train_cfg.max_iters': [24, 96]},
        {f'{loss}.rule': ['none']},
        {f'{loss}.weight': [4.]},
        {'model.statistics': ['update']},
        {'model.finetune': ['scope']},
        {scope: ['all'], alpha: [0.15, 0.25]},
    ])
