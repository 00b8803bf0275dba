"""Scopes name the stages of any backbone."""
import pytest
import torch
from mmengine.registry import init_default_scope
from small_zoo import small_config
from toys import build

from abnn_mmseg.models.scopes import resolve
from benchmarks.zoo_models import bayesian, what_is_missing

# What the last stage holds, of all that the backbone has.
LAST_STAGE = {
    'DeepLabv3+ R50-D8': ['layer4'],
    'SegFormer MiT-B0': ['layers.3'],
    'UPerNet Swin-T': ['stages.3', 'norm3'],
    'UPerNet ConvNeXt-T': ['stages.3', 'downsample_layers.3', 'norm3'],
    'OCRNet HR18': ['stage4', 'transition3'],
    'SegNeXt MSCAN-T': ['patch_embed4', 'block4', 'norm4'],
}


@pytest.fixture(scope='module', params=list(LAST_STAGE))
def model(request):
    missing = what_is_missing(request.param)
    if missing:
        pytest.skip(missing)
    init_default_scope('mmseg')
    model = build(bayesian(
        small_config(request.param), alpha=0.2, samples=4, scope='stage4',
        draws_per_pass=2))
    model.expected = LAST_STAGE[request.param]
    return model


def test_stage4_is_the_last_stage(model):
    expected = tuple(f'backbone.{part}.' for part in model.expected)
    layers = model.posterior.in_scope
    assert layers == [
        n for n in model.conversion.converted
        if f'{n}.'.startswith(expected)
    ]
    for part in expected:
        assert any(f'{name}.'.startswith(part) for name in layers), part


def test_stages_do_not_overlap_and_fill_most_of_the_backbone(model):
    names = model.conversion.converted
    stages = [resolve(names, f'stage{n}') for n in (1, 2, 3, 4)]
    assert resolve(names, 'backbone.stage4') == stages[3]
    assert resolve(names, ['stage1', 'stage2', 'stage3', 'stage4']) == [
        n for n in names if any(n in stage for stage in stages)]
    assert sum(map(len, stages)) == len(set().union(*stages))
    backbone = [n for n in names if n.startswith('backbone')]
    assert sum(map(len, stages)) > 0.8 * len(backbone)


@torch.no_grad()
def test_earlier_stages_are_computed_once(model):
    """Of two passes over two draws each, the second starts at stage 4."""
    runs = {'stage1': 0, 'stage4': 0}
    first = {scope: resolve(model.conversion.converted, scope)[0]
             for scope in runs}

    def count(scope):
        def hook(*_):
            runs[scope] += 1
        return model.get_submodule(first[scope]).register_forward_hook(hook)

    handles = [count(scope) for scope in runs]
    torch.manual_seed(0)
    [sample] = model.predict(torch.randn(1, 3, 64, 64))
    for handle in handles:
        handle.remove()
    assert runs['stage1'] == 1 and runs['stage4'] >= 2
    assert sample.uncertainty.mutual_information.max() > 1e-6


def test_a_transformer_without_stages_says_what_it_has():
    names = [f'backbone.layers.{i}.ln1' for i in range(12)]
    with pytest.raises(ValueError, match="scope='stage4' matches none"):
        resolve(dict.fromkeys(names), 'stage4')
    assert resolve(dict.fromkeys(names), 'backbone.layers.11') == names[-1:]
