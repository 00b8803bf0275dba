"""Names of mmseg's parts that the package relies on."""
import inspect

import pytest
from mmseg.models import backbones, decode_heads, segmentors
from mmseg.registry import MODELS

from abnn_mmseg.models.architectures import (
    AUXILIARY_HEAD,
    DECODE_HEAD,
    FUSIONS,
    MASK_HEADS,
    STAGES,
    TEXT_ENCODER,
)


@pytest.mark.parametrize('name', MASK_HEADS)
def test_mask_heads_exist(name):
    assert MODELS.get(name) is not None


@pytest.mark.parametrize('kind,names', [
    (decode_heads.UPerHead, FUSIONS[0]),
    (decode_heads.DepthwiseSeparableASPPHead, FUSIONS[1]),
    (decode_heads.SegformerHead, FUSIONS[2])])
def test_heads_fuse_in_parts_of_these_names(kind, names):
    source = ''.join(map(inspect.getsource, kind.__mro__[:2]))
    for name in names:
        assert f'self.{name} = ' in source


@pytest.mark.parametrize('kind,parts,stage', [
    (backbones.ResNet, ["f'layer{i+1}'"], STAGES[0]),
    (backbones.HRNet, ["'stage2'", 'self.transition1'], STAGES[1]),
    (backbones.SwinTransformer, ['self.stages', "f'norm{i}'"], STAGES[2]),
    (backbones.MixVisionTransformer, ['self.layers'], STAGES[3]),
    (backbones.MSCAN, ["f'block{i+1}'", "f'patch_embed{i+1}'",
                       "f'norm{i+1}'"], STAGES[4]),
    (backbones.UNet, ['self.encoder'], STAGES[5])])
def test_backbones_have_stages_of_these_names(kind, parts, stage):
    source = inspect.getsource(kind).replace(' ', '')
    for part in parts:
        assert part in source, stage


def test_segmentors_have_parts_of_these_names():
    source = inspect.getsource(segmentors.EncoderDecoder)
    assert f'self.{DECODE_HEAD}' in source
    assert f'self.{AUXILIARY_HEAD}' in source
    source = inspect.getsource(segmentors.MultimodalEncoderDecoder)
    assert f'self.{TEXT_ENCODER}' in source
