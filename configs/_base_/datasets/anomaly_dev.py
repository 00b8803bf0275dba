# Two road-anomaly sets to choose settings on, and Cityscapes validation images
# to see what that costs in accuracy. The environment variables ANOMALY_DEV and
# CITYSCAPES_SMALL may say where they are.
_base_ = './binary_anomaly.py'
data_root = '{{$ANOMALY_DEV:data/anomaly_dev}}'
test_dataloader = dict(
    num_workers=2, dataset=dict(data_root=f'{data_root}/roadanomaly'))
# The 19 classes of Cityscapes and nothing unknown.
names = ('road', 'sidewalk', 'building', 'wall', 'fence', 'pole',
         'traffic light', 'traffic sign', 'vegetation', 'terrain', 'sky',
         'person', 'rider', 'car', 'truck', 'bus', 'train', 'motorcycle',
         'bicycle')
colours = [[128, 64, 128], [244, 35, 232], [70, 70, 70], [102, 102, 156],
           [190, 153, 153], [153, 153, 153], [250, 170, 30], [220, 220, 0],
           [107, 142, 35], [152, 251, 152], [70, 130, 180], [220, 20, 60],
           [255, 0, 0], [0, 0, 142], [0, 0, 70], [0, 60, 100], [0, 80, 100],
           [0, 0, 230], [119, 11, 32]]
test_sets = dict(
    roadanomaly=dict(),
    fs_static=dict(data_root=f'{data_root}/fs_static'),
    val=dict(
        type='AnomalySegDataset',
        labels=dict(name='Cityscapes', classes=names, palette=colours,
                    ids=list(range(19)), ood=()),
        data_root='{{$CITYSCAPES_SMALL:data/cityscapes_small}}',
        data_prefix=dict(img_path='img/val', seg_map_path='lab/val')))
