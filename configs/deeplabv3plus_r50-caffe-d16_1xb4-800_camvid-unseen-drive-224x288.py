# A base network that has not seen one drive of CamVid's training images, and
# is validated and tested on it. Whoever chooses settings for streets that
# training images do not show chooses with it: validation images are of a drive
# that training images are of, most test images are not. The environment
# variable CAMVID_UNSEEN says which drive.
_base_ = './deeplabv3plus_r50-caffe-d16_1xb4-800_camvid-224x288.py'
unseen = '{{$CAMVID_UNSEEN:0006R0}}'
drives = ['0001TP', '0006R0', '0016E5']
train_dataloader = dict(
    dataset=dict(drives=[drive for drive in drives if drive != unseen]))
val_dataloader = dict(dataset=dict(split='train', drives=[unseen]))
test_dataloader = val_dataloader
