# Fishyscapes Lost & Found, validation: 100 masks NNNN_FRAME_labels.png, images
# FRAME_leftImg8bit.png among all of Lost and Found.
_base_ = './binary_anomaly.py'
test_dataloader = dict(
    dataset=dict(
        data_root='data/fishyscapes',
        data_prefix=dict(
            img_path='leftImg8bit', seg_map_path='fishyscapes_lostandfound'),
        img_suffix='_leftImg8bit',
        seg_map_suffix='_labels',
        stem_pattern=r'(?:^|/)(?:\d{4}_)?(\d\d_[^/]+)$',
        only_labelled=True))
