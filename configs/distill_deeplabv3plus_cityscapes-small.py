# The student of ABNN on Cityscapes at 512x256: maps of all networks and views
# in one pass (docs/student.md).
_base_ = './abnn_deeplabv3plus_cityscapes-small.py'
runs = '{{$AWAY_RUNS:work_dirs/away}}'
model = dict(
    prediction='base',
    posterior=dict(
        members=f'{runs}/abnn_0/members.pth',
        views=dict(flips=('horizontal', ), scales=(0.75, ))))
train_dataloader = dict(
    dataset=dict(pipeline=[
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnnotations'),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PhotoMetricDistortion'),
        dict(type='PasteUnknown'),
        dict(type='PackAnomalyInputs'),
    ]))
train_cfg = dict(_delete_=True, type='DistillTrainLoop', max_iters=400)
