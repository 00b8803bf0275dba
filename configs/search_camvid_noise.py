# Where noise should live and how strong it should be, tried on a drive that
# the base has not seen: draws around the base, without any training.
_base_ = './abnn_deeplabv3plus_camvid-unseen-drive.py'
work_dir = '{{$CAMVID_RUNS:work_dirs/camvid}}/search'
posterior = 'model.posterior'
alpha, scope = f'{posterior}.alpha', f'{posterior}.scope'
layers = [f'backbone.layer{i}' for i in (1, 2, 3, 4)]
middle = layers[1:3]
model = dict(posterior=dict(samples=8, noise='channel'))
search = dict(
    images=24,
    train=[{'train_cfg.max_iters': [0]}],
    test=[
        {scope: ['all'], alpha: [0.15]},
        {scope: layers[:1], alpha: [0.4]},
        {scope: middle, alpha: [0.4]},
        {scope: [layers[3], 'decode_head'], alpha: [0.2, 0.4]},
        {scope: [middle], alpha: [0.2, 0.3, 0.4]},
        {scope: [middle], alpha: [0.3], f'{posterior}.noise': ['element']},
        {scope: [middle], alpha: [0.4], f'{posterior}.samples': [16]},
    ])
