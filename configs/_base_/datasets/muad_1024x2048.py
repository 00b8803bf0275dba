# MUAD, 15 classes, 1024x2048, OOD labels kept. The 19-class protocol:
# protocol='19' in each dataset, and 19 outputs of the model.
_base_ = './anomaly.py'
source = dict(type='MUADDataset', data_root='data/muad')
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(
        type='RandomResize',
        scale=(2048, 1024),
        ratio_range=(0.5, 2.0),
        keep_ratio=True),
    dict(type='RandomCrop', crop_size=(768, 768), cat_max_ratio=0.75),
    dict(type='RandomFlip', prob=0.5),
    dict(type='PhotoMetricDistortion'),
    dict(type='PackAnomalyInputs'),
]

train_dataloader = dict(dataset=dict(**source, pipeline=train_pipeline))
val_dataloader = dict(dataset=source)
test_dataloader = dict(dataset=dict(**source, split='test_ood'))
# For tools/test.py --datasets; the last four are in adverse weather.
test_sets = dict(
    test_id=dict(split='test_id'),
    test_ood=dict(split='test_ood'),
    test_id_low_adv=dict(split='test_id_low_adv'),
    test_id_high_adv=dict(split='test_id_high_adv'),
    test_ood_low_adv=dict(split='test_ood_low_adv'),
    test_ood_high_adv=dict(split='test_ood_high_adv'))
