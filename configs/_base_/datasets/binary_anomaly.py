# Test sets with anomaly masks only, for a model of its own classes (default:
# Cityscapes; others with metainfo=dict(classes=..., palette=...)): 1 anomaly,
# 0 normal, 255 void. For other layouts and values see the configs over this.
dataset_type = 'BinaryAnomalyDataset'
data_root = 'data/masks'
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnomalyAnnotations'),
    dict(type='PackAnomalyInputs'),
]

test_dataloader = dict(
    batch_size=1,
    num_workers=4,
    persistent_workers=True,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(
        type=dataset_type,
        data_root=data_root,
        data_prefix=dict(img_path='images', seg_map_path='labels'),
        pipeline=test_pipeline))

# There are no class labels, so no mIoU and no calibration.
test_evaluator = dict(
    type='AnomalyMetric', scores=('msp', 'entropy', 'mutual_information'))
