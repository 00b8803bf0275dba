# MUAD-sketch: small drawn scenes with the labels and folders of MUAD. Make it
# with: python tools/make_muad_sketch.py data/muad_sketch
_base_ = './anomaly.py'
source = dict(type='MUADDataset', data_root='data/muad_sketch')
# Light augmentation: every image is used whole.
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PackAnomalyInputs'),
]

# Without workers, since two cores have none to spare for loading.
train_dataloader = dict(
    num_workers=0,
    persistent_workers=False,
    dataset=dict(**source, pipeline=train_pipeline))
val_dataloader = dict(
    num_workers=0, persistent_workers=False, dataset=source)
test_dataloader = dict(
    num_workers=0,
    persistent_workers=False,
    dataset=dict(**source, split='test_ood'))
# For tools/test.py --datasets.
test_sets = dict(
    test_id=dict(split='test_id'), test_ood=dict(split='test_ood'))
