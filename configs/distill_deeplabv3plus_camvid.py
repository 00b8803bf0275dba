# The student of ABNN on CamVid-Anomaly: maps of all networks and views in one
# pass (docs/student.md).
_base_ = './abnn_deeplabv3plus_camvid.py'
runs = '{{$CAMVID_RUNS:work_dirs/camvid}}'
model = dict(
    data_preprocessor=dict(size=(240, 320)),
    prediction='base',
    posterior=dict(
        members=f'{runs}/abnn_0/members.pth',
        views=dict(flips=('horizontal', ), scales=(0.75, ))))
train_dataloader = dict(
    dataset=dict(pipeline=[
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnomalyAnnotations'),
        dict(type='RandomCrop', crop_size=(240, 320)),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PhotoMetricDistortion'),
        dict(type='PasteUnknown'),
        dict(type='PackAnomalyInputs'),
    ]))
train_cfg = dict(_delete_=True, type='DistillTrainLoop', max_iters=900)
