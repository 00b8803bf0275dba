# ABNN around a base that has not seen one drive, and tested on that drive:
# where settings for new streets are chosen (docs/comparison.md).
_base_ = './abnn_deeplabv3plus_camvid.py'
unseen = '{{$CAMVID_UNSEEN:0006R0}}'
drives = ['0001TP', '0006R0', '0016E5']
runs = '{{$CAMVID_RUNS:work_dirs/camvid}}'
load_from = f'{runs}/without_{unseen}/iter_800.pth'
train_dataloader = dict(
    dataset=dict(drives=[drive for drive in drives if drive != unseen]))
val_dataloader = dict(dataset=dict(split='train', drives=[unseen]))
test_dataloader = val_dataloader
