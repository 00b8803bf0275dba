# RoadAnomaly, 60 images of 720x1280: masks with 0 and 2. They lie among the
# images, as frames/NAME.labels/labels_semantic.png, so the extension of images
# must be given ('.webp' in the first release).
_base_ = './binary_anomaly.py'
test_dataloader = dict(
    dataset=dict(
        data_root='data/road_anomaly',
        data_prefix=dict(img_path='frames', seg_map_path='frames'),
        img_suffix='.jpg',
        seg_map_suffix='.labels/labels_semantic',
        anomaly_values=(2, )))
