# What fine-tuning should look like, tried on CamVid's validation images: one
# thing is changed after the other.
_base_ = './abnn_deeplabv3plus_camvid.py'
work_dir = '{{$CAMVID_RUNS:work_dirs/camvid}}/search'
model = dict(
    posterior=dict(samples=8, candidates=None, antithetic=True, views=None))
loss = 'model.decode_head.loss_decode'
search = dict(
    members=1,
    images=9,
    train=[
        {},
        {f'{loss}.weight': [3.]},
        {'model.finetune': ['scope']},
    ],
    # Without noise: what fine-tuning alone does.
    test=[{'model.posterior.alpha': [0.5, 0.]}])
