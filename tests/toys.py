"""Small real models that the tests share."""
import copy

import torch
from mmengine.config import ConfigDict
from mmseg.registry import MODELS

CLASSES = 5


def toy_config(norm: dict = None, auxiliary: bool = True, **segmentor) -> dict:
    """A two-stage ResNet with a DeepLabv3+ head; keyword: the segmentor."""
    norm = norm or dict(type='BN')
    cfg = dict(
        type='EncoderDecoder',
        backbone=dict(
            type='ResNet', depth=18, base_channels=8, num_stages=2,
            strides=(1, 2), dilations=(1, 1), out_indices=(0, 1),
            norm_cfg=norm, norm_eval=False),
        decode_head=dict(
            type='DepthwiseSeparableASPPHead', in_channels=16, in_index=1,
            channels=8, dilations=(1, 2), c1_in_channels=8, c1_channels=4,
            dropout_ratio=0.1, num_classes=CLASSES, norm_cfg=norm,
            loss_decode=dict(type='CrossEntropyLoss')),
        train_cfg=dict(), test_cfg=ConfigDict(mode='whole'))
    if auxiliary:
        cfg['auxiliary_head'] = dict(
            type='FCNHead', in_channels=8, in_index=0, channels=4,
            num_convs=1, concat_input=False, num_classes=CLASSES,
            norm_cfg=norm)
    cfg.update(segmentor)
    return cfg


def bayesian_config(norm: dict = None, alpha: float = 0.2, samples: int = 4,
                    posterior: dict = None, **segmentor) -> dict:
    """The toy with ABNN's posterior; ``posterior`` overrides its options."""
    options = dict(type='BNLPosterior', alpha=alpha, samples=samples)
    options.update(posterior or {})
    segmentor.setdefault('prediction', 'posterior_mean')
    return toy_config(
        norm, type='BayesianEncoderDecoder', posterior=options, **segmentor)


def build(cfg: dict, seed: int = 0) -> torch.nn.Module:
    """A built model in eval whose norms and classifier are not trivial."""
    torch.manual_seed(seed)
    model = MODELS.build(copy.deepcopy(cfg)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if name.endswith('eta') or not value.is_floating_point():
                continue
            noise = torch.rand(value.shape, generator=generator)
            if value.dim() == 1 and not name.endswith('conv_seg.bias'):
                # gamma and variances positive, means and biases around 0
                positive = name.endswith(('weight', 'running_var'))
                value.copy_(noise + 0.5 if positive else noise - 0.5)
            elif 'conv_seg' in name:
                value.copy_(4 * (noise - 0.5))
    return model


def naive_networks(plain, posterior):
    """K deep copies with perturbed gammas, members' tensors loaded."""
    eps = posterior.draw()
    members = posterior.members or [{}]
    for k in range(len(posterior)):
        draw, m = divmod(k, len(members))
        network = copy.deepcopy(plain)
        network.load_state_dict(members[m], strict=False)
        for name, alpha in posterior.alphas().items():
            if name in posterior.layers:
                factor = 1 + alpha * eps[name][m, draw]
                network.get_submodule(name).weight.data *= factor
        yield network
