# Stands for your own config: MMSegmentation's parts, and no word of ABNN.
_base_ = [
    'mmseg::_base_/models/pspnet_r50-d8.py',
    'mmseg::_base_/datasets/cityscapes.py',
    'mmseg::_base_/default_runtime.py',
    'mmseg::_base_/schedules/schedule_40k.py'
]
crop_size = (512, 1024)
model = dict(data_preprocessor=dict(size=crop_size))
