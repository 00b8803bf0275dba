"""Names of the parts of mmseg's backbones and heads.

These are attribute and class names of mmseg, mmpretrain and mmdet. If a new
release changes one, tests/test_models/test_architectures.py names it.
"""
DECODE_HEAD = 'decode_head'
# Used only in training.
AUXILIARY_HEAD = 'auxiliary_head'
# Part of SAN; its weights are frozen.
TEXT_ENCODER = 'text_encoder'
# Heads whose outputs are not logits but class scores summed over masks.
MASK_HEADS = ('MaskFormerHead', 'Mask2FormerHead', 'SideAdapterCLIPHead')
# The modules in which heads fuse their branches, the last one first.
FUSIONS = (('fpn_bottleneck', ), ('bottleneck', 'sep_bottleneck'),
           ('fusion_conv', ))
# The name of a backbone's n-th stage, and then of norms beside it that belong
# to it; i = n - 1. A ViT has no stages, only single blocks.
STAGES = (
    ('layer{n}', ),  # ResNet and its like, MobileNet
    ('stage{n}', 'transition{i}'),  # HRNet
    ('stages.{i}', 'downsample_layers.{i}', 'norm{i}'),  # Swin, ConvNeXt
    ('layers.{i}.[0-9]*', ),  # MiT: embedding, blocks, norm, by number
    ('block{n}', 'patch_embed{n}', 'norm{n}'),  # MSCAN
    ('encoder.{i}', ),  # UNet
)
