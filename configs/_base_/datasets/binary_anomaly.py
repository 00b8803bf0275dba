# Test sets with anomaly masks only, for a model of its own classes (default:
# Cityscapes; others with metainfo=dict(classes=..., palette=...)). As written:
# RoadAnomaly. SegmentMeIfYouCan: data_prefix=dict(img_path='images',
# seg_map_path='labels_masks'), img_suffix='',
# seg_map_suffix='_labels_semantic', anomaly_values=(1, ).
dataset_type = 'BinaryAnomalyDataset'
data_root = 'data/road_anomaly'
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
        data_prefix=dict(img_path='frames', seg_map_path='frames'),
        # Masks lie among the images, as frames/NAME.labels/*.png, so the
        # extension of images must be given ('.webp' in the first release).
        img_suffix='.jpg',
        seg_map_suffix='.labels/labels_semantic',
        anomaly_values=(2, ),
        pipeline=test_pipeline))

# There are no class labels, so no mIoU and no calibration.
test_evaluator = dict(
    type='AnomalyMetric', scores=('msp', 'entropy', 'mutual_information'))
