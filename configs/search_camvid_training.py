# What fine-tuning should look like, tried on a drive that the base has not
# seen: one thing is changed after the other.
_base_ = './abnn_deeplabv3plus_camvid-unseen-drive.py'
work_dir = '{{$CAMVID_RUNS:work_dirs/camvid}}/search'
model = dict(posterior=dict(samples=6))
loss = 'model.decode_head.loss_decode'
search = dict(
    members=1,
    images=16,
    train=[
        {},
        {f'{loss}.weight': [4.]},
    ],
    # Without noise: what fine-tuning alone does.
    test=[{'model.posterior.alpha': [0.4, 0.]}])
