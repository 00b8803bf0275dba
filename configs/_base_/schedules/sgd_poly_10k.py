# A trained base: SGD, poly decay, 10.7k steps.
optim_wrapper = dict(
    type='OptimWrapper',
    optimizer=dict(type='SGD', lr=0.01, momentum=0.9, weight_decay=1e-4))
param_scheduler = [
    dict(type='PolyLR', eta_min=1e-4, power=0.9, end=10700, by_epoch=False)
]
train_cfg = dict(type='IterBasedTrainLoop', max_iters=10700, val_interval=1000)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
