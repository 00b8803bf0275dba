"""MMSegmentation's models, as it configures them but a fraction as wide."""
from benchmarks.zoo_models import model_config

# By how much narrower than mmseg's; an eighth where nothing is said.
FACTORS = {'OCRNet HR18': 2, 'BiSeNetV2': 4, 'CGNet': 4}
# Shorter, too, where blocks repeat.
SHORTER = {
    'UPerNet Swin-T': {'backbone.depths': [1, 1, 2, 1]},
    'UPerNet ConvNeXt-T': {
        'backbone.arch': dict(depths=[1, 1, 2, 1], channels=[12, 24, 48, 96])},
    'UPerNet ViT-B': {'backbone.num_layers': 4,
                      'backbone.out_indices': (0, 1, 2, 3)},
    'OCRNet HR18': {'backbone.extra.stage3.num_modules': 1,
                    'backbone.extra.stage4.num_modules': 1},
    'OCRNet R101-D8': {'backbone.depth': 50},
    'CGNet': {'backbone.num_blocks': (2, 3)},
    'Segmenter ViT-T': {'backbone.num_layers': 3},
    'SAN ViT-B': {'text_encoder.num_layers': 2,
                  'text_encoder.templates': ['a photo of a {}.']},
}


def narrow(cfg, factor):
    """Divide every number of channels in a config, except the image's 3."""
    for key, value in cfg.items():
        for part in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(part, dict):
                narrow(part, factor)
        if key.endswith(('channels', 'dims', 'num_groups', 'num_feats')) and (
                value != 3):
            cfg[key] = (value // factor if isinstance(value, int) else
                        type(value)(part // factor for part in value))
    if str(cfg.get('type')).startswith('ResNet'):
        cfg.update(base_channels=64 // factor, stem_channels=64 // factor)


def small_config(name):
    cfg = model_config(name)
    narrow(cfg, FACTORS.get(name, 8))
    for key, value in SHORTER.get(name, {}).items():
        *path, last = key.split('.')
        part = cfg
        for step in path:
            part = part[step]
        part[last] = value
    return cfg
