# The paper's base network: 50 epochs of MUAD at batch 16 are 10.7k steps.
_base_ = [
    './_base_/models/deeplabv3plus_r50-d8.py',
    './_base_/datasets/muad_1024x2048.py',
    './_base_/schedules/sgd_poly_10k.py', './_base_/default_runtime.py'
]
crop_size = (768, 768)
train_dataloader = dict(batch_size=16, num_workers=4)
model = dict(
    data_preprocessor=dict(size=crop_size),
    decode_head=dict(num_classes=15),
    auxiliary_head=dict(num_classes=15))
