# Where noise should live and how strong it should be, tried on a drive that
# the base has not seen: draws around the base, without any training.
_base_ = './abnn_deeplabv3plus_camvid-unseen-drive.py'
work_dir = '{{$CAMVID_RUNS:work_dirs/camvid}}/search'
alpha, scope = 'model.posterior.alpha', 'model.posterior.scope'
layer2, layer3, layer4 = (f'backbone.layer{i}' for i in (2, 3, 4))
model = dict(posterior=dict(samples=6))
search = dict(
    images=16,
    train=[{'train_cfg.max_iters': [0]}],
    test=[
        {scope: ['all'], alpha: [0.15]},
        {scope: [layer2], alpha: [0.5]},
        {scope: [layer3], alpha: [0.4]},
        {scope: [layer4], alpha: [0.2]},
        {scope: [[layer2, layer3]], alpha: [0.3, 0.4]},
    ])
