"""What the backbones and heads of mmseg call their parts.

These are attribute and class names of mmseg, mmpretrain and mmdet. A new
release may change them: tests/test_models/test_architectures.py names the one
that is gone.
"""
DECODE_HEAD = 'decode_head'
# It is used in training only.
AUXILIARY_HEAD = 'auxiliary_head'
# Of SAN; its weights are frozen.
TEXT_ENCODER = 'text_encoder'
# Heads whose output is no logit but a score: how much of the masks a class
# has.
MASK_HEADS = ('MaskFormerHead', 'Mask2FormerHead', 'SideAdapterCLIPHead')
# What heads fuse their branches in, the last part first.
FUSIONS = (('fpn_bottleneck', ), ('bottleneck', 'sep_bottleneck'),
           ('fusion_conv', ))
# What backbones call their n-th stage, first, and the norms around it that
# belong to it; i = n - 1. A ViT has none: its layers are single blocks.
STAGES = (
    ('layer{n}', ),  # ResNet and its like, MobileNet
    ('stage{n}', 'transition{i}'),  # HRNet
    ('stages.{i}', 'downsample_layers.{i}', 'norm{i}'),  # Swin, ConvNeXt
    ('layers.{i}.[0-9]*', ),  # MiT: embedding, blocks, norm, by number
    ('block{n}', 'patch_embed{n}', 'norm{n}'),  # MSCAN
    ('encoder.{i}', ),  # UNet
)
