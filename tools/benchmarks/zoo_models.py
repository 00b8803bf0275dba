"""The models of MMSegmentation that are tried, and how they are built."""
import copy
import importlib
import sys
import types
from pathlib import Path
from typing import NamedTuple, Optional

import mmseg
from mmengine.config import Config, ConfigDict

from abnn_mmseg.engine.loading import BAYESIAN, forget_pretrained


class Entry(NamedTuple):
    """A config that mmseg ships, and a module it cannot do without."""
    config: str
    needs: str = 'mmseg'


ZOO = {
    'FCN R50-D8': Entry('fcn/fcn_r50-d8_4xb2-40k_cityscapes-512x1024.py'),
    'PSPNet R50-D8':
    Entry('pspnet/pspnet_r50-d8_4xb2-40k_cityscapes-512x1024.py'),
    'DeepLabv3 R50-D8':
    Entry('deeplabv3/deeplabv3_r50-d8_4xb2-40k_cityscapes-512x1024.py'),
    'DeepLabv3+ R50-D8': Entry(
        'deeplabv3plus/deeplabv3plus_r50-d8_4xb2-40k_cityscapes-512x1024.py'),
    'UPerNet R50':
    Entry('upernet/upernet_r50_4xb2-40k_cityscapes-512x1024.py'),
    'UPerNet Swin-T': Entry('swin/swin-tiny-patch4-window7-in1k-pre_upernet_'
                            '8xb2-160k_ade20k-512x512.py'),
    'UPerNet ConvNeXt-T': Entry(
        'convnext/convnext-tiny_upernet_8xb2-amp-160k_ade20k-512x512.py',
        needs='mmpretrain.models'),
    'UPerNet ViT-B':
    Entry('vit/vit_vit-b16-ln_mln_upernet_8xb2-160k_ade20k-512x512.py'),
    'SegFormer MiT-B0':
    Entry('segformer/segformer_mit-b0_8xb1-160k_cityscapes-1024x1024.py'),
    'SegNeXt MSCAN-T':
    Entry('segnext/segnext_mscan-t_1xb16-adamw-160k_ade20k-512x512.py'),
    'OCRNet HR18': Entry('ocrnet/ocrnet_hr18_4xb2-40k_cityscapes-512x1024.py'),
    'OCRNet R101-D8':
    Entry('ocrnet/ocrnet_r101-d8_4xb2-40k_cityscapes-512x1024.py'),
    'BiSeNetV2':
    Entry('bisenetv2/bisenetv2_fcn_4xb4-160k_cityscapes-1024x1024.py'),
    'Fast-SCNN': Entry('fastscnn/fast_scnn_8xb4-160k_cityscapes-512x1024.py'),
    'STDC1': Entry('stdc/stdc1_4xb12-80k_cityscapes-512x1024.py'),
    'CGNet': Entry('cgnet/cgnet_fcn_4xb8-60k_cityscapes-512x1024.py'),
    'UNet-S5-D16 FCN':
    Entry('unet/unet-s5-d16_fcn_4xb4-160k_cityscapes-512x1024.py'),
    'Segmenter ViT-T':
    Entry('segmenter/segmenter_vit-t_mask_8xb1-160k_ade20k-512x512.py'),
    'K-Net R50-D8':
    Entry('knet/knet-s3_r50-d8_fcn_8xb2-adamw-80k_ade20k-512x512.py'),
    'SAN ViT-B': Entry(
        'san/san-vit-b16_coco-stuff164k-640x640.py', needs='mmcv.ops'),
    'PointRend R50': Entry(
        'point_rend/pointrend_r50_4xb2-80k_cityscapes-512x1024.py',
        needs='mmcv.ops'),
    'MaskFormer R50': Entry(
        'maskformer/maskformer_r50-d32_8xb2-160k_ade20k-512x512.py',
        needs='mmdet.models'),
    'Mask2Former R50': Entry(
        'mask2former/mask2former_r50_8xb2-90k_cityscapes-512x1024.py',
        needs='mmdet.models'),
}


def model_config(name: str) -> ConfigDict:
    """The model of a zoo entry as mmseg configures it, not pretrained."""
    path = Path(mmseg.__file__).parent / '.mim/configs' / ZOO[name].config
    cfg = Config.fromfile(path, import_custom_modules=False)
    model = copy.deepcopy(cfg.model)
    forget_pretrained(model)
    return model


def bayesian(model: ConfigDict, **posterior) -> ConfigDict:
    """The change that a user makes to a model's config."""
    return ConfigDict(
        model, type=BAYESIAN[model.type], prediction='posterior_mean',
        posterior=dict(type='BNLPosterior', **posterior))


def what_is_missing(name: str) -> Optional[str]:
    """Why a model of the zoo cannot be built here, None if it can."""
    module = ZOO[name].needs
    try:
        if module == 'mmpretrain.models':
            _import_mmpretrain()
        importlib.import_module(module)
    except Exception as error:
        reason = str(error).splitlines()[0]
        return f'needs `{module}` ({type(error).__name__}: {reason})'
    return None


def _import_mmpretrain() -> None:
    """Also without torchvision, of which its models use nothing.

    mmpretrain imports it for one metric, and a torchvision that was built
    for another torch cannot be imported.
    """
    try:
        importlib.import_module('mmpretrain.models')
        return
    except (ImportError, RuntimeError) as error:
        if 'torchvision' not in str(error):
            raise
    names = ('torchvision', 'torchvision.ops', 'torchvision.ops.boxes')
    stand_ins = {name: types.ModuleType(name) for name in names}
    for name in names[1:]:
        parent, _, child = name.rpartition('.')
        setattr(stand_ins[parent], child, stand_ins[name])
    sys.modules.update(stand_ins)
    try:
        importlib.import_module('mmpretrain.models')
    finally:
        for name in names:
            del sys.modules[name]
