# SegmentMeIfYouCan, RoadAnomaly21: its validation images, which have masks.
_base_ = './binary_anomaly.py'
test_dataloader = dict(
    dataset=dict(
        data_root='data/dataset_AnomalyTrack',
        data_prefix=dict(img_path='images', seg_map_path='labels_masks'),
        seg_map_suffix='_labels_semantic',
        only_labelled=True))
