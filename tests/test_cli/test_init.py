"""`abnn init` on networks of many kinds: what it writes trains and tests."""
import argparse
import copy
import subprocess
import sys
import textwrap
from pathlib import Path

import cv2
import mmseg
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmseg.registry import MODELS
from small_zoo import FACTORS, SHORTER, narrow
from toys import toy_config

from abnn_mmseg.cli import init
from abnn_mmseg.engine import read_members, train
from abnn_mmseg.engine.loading import forget_pretrained
from abnn_mmseg.engine.tester import test as run_test
from benchmarks.zoo_models import ZOO, what_is_missing

CONFIGS = Path(mmseg.__file__).parent / '.mim/configs'
SIZE = (64, 64)
DATASET = '''
from mmseg.datasets import BaseSegDataset
from mmseg.registry import DATASETS


@DATASETS.register_module(force=True)
class Backyard(BaseSegDataset):
    """A dataset of the user's own."""
    METAINFO = dict(classes=tuple('abc'), palette=[[i] * 3 for i in range(3)])

    def __init__(self, **kwargs):
        super().__init__(img_suffix='.png', seg_map_suffix='.png', **kwargs)
'''


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    """Images of noise, with labels 0, 1 and 255."""
    root = tmp_path_factory.mktemp('data')
    random = np.random.default_rng(0)
    for number in range(2):
        for folder, values in (('images', 256), ('labels', 2)):
            shape = (*SIZE, 3) if folder == 'images' else SIZE
            image = random.integers(0, values, shape, dtype=np.uint8)
            if folder == 'labels':
                image[:8] = 255
            (root / folder).mkdir(exist_ok=True)
            cv2.imwrite(str(root / folder / f'{number}.png'), image)
    return root


def zoo_config(name) -> Config:
    """A config as mmseg ships it, narrow, and still pretrained."""
    cfg = Config.fromfile(
        CONFIGS / ZOO[name].config, import_custom_modules=False)
    narrow(cfg.model, FACTORS.get(name, 8))
    cfg.merge_from_dict({
        f'model.{key}': value for key, value in SHORTER.get(name, {}).items()})
    return cfg


def set_classes(cfg, number, **head):
    for part in ('decode_head', 'auxiliary_head'):
        heads = cfg.model.get(part) or []
        for one in [heads] if isinstance(heads, dict) else heads:
            one.update(num_classes=number, **head)


def set_data(cfg, root, classes=3, crop=SIZE, **dataset):
    """The images above, in place of the base's."""
    load = [dict(type='LoadImageFromFile'), dict(type='LoadAnnotations')]
    steps = dict(train=[dict(type='RandomCrop', crop_size=crop),
                        dict(type='RandomFlip', prob=0.5)], val=[], test=[])
    dataset = dict(
        dict(type='BaseSegDataset', metainfo=dict(
            classes=tuple('abcdefg'[:classes]),
            palette=[[i] * 3 for i in range(classes)]),
            img_suffix='.png', seg_map_suffix='.png'), **dataset)
    for split, own in steps.items():
        cfg[f'{split}_dataloader'].num_workers = 0
        cfg[f'{split}_dataloader'].persistent_workers = False
        cfg[f'{split}_dataloader'].dataset = dict(
            dataset, data_root=str(root),
            data_prefix=dict(img_path='images', seg_map_path='labels'),
            pipeline=[*load, *own, dict(type='PackSegInputs')])
    cfg.train_dataloader.batch_size = 2
    cfg.model.data_preprocessor.size = crop
    cfg.log_level = 'WARNING'
    cfg.get('default_hooks', {}).pop('visualization', None)
    cfg.pop('vis_backends', None)
    cfg.pop('visualizer', None)


def write_base(cfg, folder) -> tuple[Path, Path]:
    """The config in a file, and random weights of it."""
    config, checkpoint = folder / 'my_config.py', folder / 'my.pth'
    cfg.dump(config)
    plain = copy.deepcopy(cfg.model)
    forget_pretrained(plain)
    torch.save(dict(state_dict=MODELS.build(plain).state_dict()), checkpoint)
    return config, checkpoint


def run_init(*arguments):
    parser = argparse.ArgumentParser()
    init.add_arguments(parser)
    init.run(parser.parse_args([str(a) for a in arguments]))


def initialize(cfg, folder) -> Config:
    """What init writes, read as a tool reads it."""
    config, checkpoint = write_base(cfg, folder)
    (folder / 'abnn').mkdir()
    out = folder / 'abnn' / 'my_abnn.py'
    run_init(config, checkpoint, '-o', out)
    text = out.read_text()
    assert "_base_ = ['../my_config.py']" in text
    assert max(map(len, text.splitlines())) < 80 or str(folder) in text
    child = Config.fromfile(out)
    assert child.load_from == str(checkpoint)
    recipe = init.recipe_for(cfg.model)
    assert child.train_cfg.members == 3
    assert child.train_cfg.max_iters == recipe.iterations
    assert child.model.prediction == 'base'
    assert child.model.posterior == dict(
        type='BNLPosterior', **recipe.posterior)
    assert set(child.optim_wrapper) == {'type', 'optimizer'}
    assert child.optim_wrapper.optimizer.type == 'SGD'
    assert [s.type for s in child.param_scheduler] == ['PolyLR']
    child.text = text
    return child


def check_training_and_test(cfg, folder) -> tuple[dict, dict]:
    """One member of two steps, and its metrics."""
    cfg.work_dir = str(folder / 'work')
    cfg.train_cfg.max_iters = 2
    cfg.model.posterior.samples = 2
    cfg.validate_members = False
    cfg.pop('text')
    train(cfg, members=1)
    files = [cfg.load_from, f'{cfg.work_dir}/members.pth']
    [member] = read_members(files[1])
    assert member['meta']['iterations'] == 2
    metrics = run_test(cfg, files)
    assert metrics['cal/pooled/NLL'] > 0
    assert {'seg', 'cal', 'sel'} <= {key.split('/')[0] for key in metrics}
    return member, metrics


def test_deeplab_on_data_with_unknown_objects(sketch, tmp_path):
    cfg = zoo_config('DeepLabv3+ R50-D8')
    ours = Config.fromfile('configs/_base_/datasets/muad_sketch_128x256.py')
    for split in ('train', 'val', 'test'):
        cfg[f'{split}_dataloader'] = ours[f'{split}_dataloader']
        cfg[f'{split}_dataloader'].dataset.data_root = str(sketch)
    cfg.model.data_preprocessor.size = (32, 64)
    cfg.default_hooks.pop('visualization')
    cfg.log_level = 'WARNING'
    set_classes(cfg, 15)
    child = initialize(cfg, tmp_path)
    assert child.model.pretrained is None
    assert child.model.auxiliary_head.loss_decode == dict(
        type='RandomPriorCrossEntropyLoss', weight=1.5, loss_weight=0.4)
    member, metrics = check_training_and_test(child, tmp_path)
    assert len(member['meta']['eta']) == 15
    assert 0 < metrics['ood/pooled/entropy/AUROC'] < 100


def test_segformer_loses_adamw_and_warm_up_and_keeps_its_windows(
        data, tmp_path):
    cfg = zoo_config('SegFormer MiT-B0')
    set_classes(cfg, 3)
    set_data(cfg, data)
    cfg.model.test_cfg = dict(
        mode='slide', crop_size=SIZE, stride=(32, 32))
    assert 'paramwise_cfg' in cfg.optim_wrapper
    assert len(cfg.param_scheduler) == 2
    child = initialize(cfg, tmp_path)
    assert 'windows of 64x64' in child.text
    assert child.model.test_cfg == cfg.model.test_cfg
    assert child.model.backbone.init_cfg is None
    check_training_and_test(child, tmp_path)


def test_swin_loses_its_paramwise_weight_decay(data, tmp_path):
    cfg = zoo_config('UPerNet Swin-T')
    set_classes(cfg, 3)
    set_data(cfg, data)
    assert 'paramwise_cfg' in cfg.optim_wrapper
    child = initialize(cfg, tmp_path)
    check_training_and_test(child, tmp_path)


def test_pspnet_with_syncbn_and_a_dataset_of_one_s_own(
        data, tmp_path, monkeypatch):
    (tmp_path / 'my_backyard.py').write_text(DATASET)
    monkeypatch.syspath_prepend(str(tmp_path))
    cfg = zoo_config('PSPNet R50-D8')
    assert cfg.model.backbone.norm_cfg.type == 'SyncBN'
    cfg.custom_imports = dict(
        imports='my_backyard', allow_failed_imports=False)
    set_classes(cfg, 3)
    set_data(cfg, data, type='Backyard')
    for split in ('train', 'val', 'test'):
        for name in ('metainfo', 'img_suffix', 'seg_map_suffix'):
            cfg[f'{split}_dataloader'].dataset.pop(name)
    child = initialize(cfg, tmp_path)
    assert child.custom_imports['imports'] == ['my_backyard', 'abnn_mmseg']
    check_training_and_test(child, tmp_path)


def test_a_binary_unet_keeps_its_sigmoid_and_class_weight(data, tmp_path):
    cfg = zoo_config('UNet-S5-D16 FCN')
    set_classes(cfg, 2, out_channels=1, threshold=0.4, loss_decode=dict(
        type='CrossEntropyLoss', use_sigmoid=True, class_weight=[2.]))
    set_data(cfg, data, classes=2)
    child = initialize(cfg, tmp_path)
    assert 'a binary head' in child.text
    loss = dict(type='RandomPriorCrossEntropyLoss', weight=1.5,
                use_sigmoid=True, class_weight=[2.])
    assert child.model.decode_head.loss_decode == loss
    assert child.model.auxiliary_head.loss_decode == dict(
        loss, loss_weight=0.4)
    member, _ = check_training_and_test(child, tmp_path)
    assert len(member['meta']['eta']) == 2


def test_a_cascade_gets_a_prior_in_each_of_its_heads(data, tmp_path):
    cfg = zoo_config('OCRNet R101-D8')
    set_classes(cfg, 3)
    set_data(cfg, data)
    child = initialize(cfg, tmp_path)
    assert child.model.type == 'BayesianCascadeEncoderDecoder'
    assert [head.loss_decode for head in child.model.decode_head] == [
        dict(type='RandomPriorCrossEntropyLoss', weight=1.5, loss_weight=0.4),
        dict(type='RandomPriorCrossEntropyLoss', weight=1.5)]
    assert [head.type for head in child.model.decode_head] == [
        'FCNHead', 'OCRHead']
    check_training_and_test(child, tmp_path)


@pytest.mark.parametrize('name', ['MaskFormer R50', 'Mask2Former R50'])
def test_a_head_of_masks_keeps_its_losses_and_says_so(name):
    cfg = zoo_config(name)
    text = init.child_config(cfg, './my_config.py', 'my.pth')
    assert 'RandomPriorCrossEntropyLoss' not in text
    assert 'matches masks, so it keeps its losses' in text
    assert 'backbone=dict(init_cfg=None' in text
    compile(text, 'my_abnn.py', 'exec')


@pytest.mark.parametrize('name', ['MaskFormer R50', 'Mask2Former R50'])
def test_a_head_of_masks_trains(data, tmp_path, name):
    if missing := what_is_missing(name):
        pytest.skip(f'{name} {missing}')
    cfg = zoo_config(name)
    set_classes(cfg, 3)
    # The last weight is that of masks without a class.
    cfg.model.decode_head.loss_cls.class_weight = [1., 1., 1., 0.1]
    set_data(cfg, data)
    check_training_and_test(initialize(cfg, tmp_path), tmp_path)


@pytest.fixture
def epochs(data):
    """A toy trained by epochs, with much of what a config may have."""
    weights = [1., 2., 0.5]
    cfg = Config(dict(
        default_scope='mmseg',
        model=toy_config(data_preprocessor=dict(type='SegDataPreProcessor')),
        work_dir='work/base/', resume=True, sync_bn='torch',
        optim_wrapper=dict(
            type='AmpOptimWrapper', dtype='bfloat16', accumulative_counts=2,
            optimizer=dict(type='Adam', lr=1e-3)),
        train_cfg=dict(type='EpochBasedTrainLoop', max_epochs=3),
        val_cfg=dict(), test_cfg=dict(),
        default_hooks=dict(
            checkpoint=dict(type='CheckpointHook', save_best='mIoU'),
            logger=None),
        custom_hooks=[dict(type='EMAHook', begin_epoch=2, momentum=0.1)],
        val_evaluator=dict(type='IoUMetric'),
        test_evaluator=[dict(type='IoUMetric'),
                        dict(type='CalibrationMetric', num_bins=7)],
        **{f'{split}_dataloader': dict(
            batch_size=1, sampler=dict(type='DefaultSampler', shuffle=True))
           for split in ('train', 'val', 'test')}))
    cfg.model.backbone.frozen_stages = 1
    cfg.model.decode_head.loss_decode = [
        dict(type='CrossEntropyLoss', class_weight=weights),
        dict(type='DiceLoss', loss_name='loss_dice')]
    cfg.model.auxiliary_head = [
        cfg.model.auxiliary_head,
        dict(cfg.model.auxiliary_head, num_classes=2, out_channels=1,
             loss_decode=dict(type='CrossEntropyLoss', use_sigmoid=True))]
    cfg.model.decode_head.num_classes = 3
    cfg.model.auxiliary_head[0].num_classes = 3
    set_data(cfg, data)
    return cfg


def test_epochs_frozen_stages_averages_and_lists_of_losses(epochs, tmp_path):
    config, checkpoint = write_base(epochs, tmp_path)
    out = tmp_path / 'my_abnn.py'
    run_init(config, checkpoint, '-o', out)
    cfg = Config.fromfile(out)
    assert cfg.work_dir == 'work/base_abnn'
    assert cfg.resume is False and cfg.sync_bn is None
    assert cfg.optim_wrapper.type == 'AmpOptimWrapper'
    assert 'accumulative_counts' not in cfg.optim_wrapper
    assert cfg.model.backbone.frozen_stages == -1
    prior, dice = cfg.model.decode_head.loss_decode
    assert prior == dict(type='RandomPriorCrossEntropyLoss', weight=1.5,
                         class_weight=[1., 2., 0.5])
    assert dice == epochs.model.decode_head.loss_decode[1]
    known, other = cfg.model.auxiliary_head
    assert known.loss_decode.type == 'RandomPriorCrossEntropyLoss'
    assert other == epochs.model.auxiliary_head[1]
    assert cfg.custom_hooks == [dict(type='EMAHook', momentum=0.1)]
    assert cfg.test_evaluator[1] == dict(
        type='CalibrationMetric', num_bins=7)
    cfg.text = None
    check_training_and_test(cfg, tmp_path)


def test_an_interrupted_member_finds_its_checkpoint(epochs, tmp_path):
    config, checkpoint = write_base(epochs, tmp_path)
    out = tmp_path / 'my_abnn.py'
    run_init(config, checkpoint, '-o', out)
    cfg = Config.fromfile(out)
    cfg.merge_from_dict(dict(
        work_dir=str(tmp_path / 'work'), validate_members=False, resume=True))
    cfg.merge_from_dict(dict(default_hooks=dict(checkpoint=dict(
        type='CheckpointHook', by_epoch=False, interval=1,
        max_keep_ckpts=-1))))
    cfg.train_cfg.max_iters = 3
    train(copy.deepcopy(cfg), members=1)
    # As if it had been killed after the first iteration.
    eta = read_members(tmp_path / 'work' / 'members.pth')[0]['meta']['eta']
    for name in ('member_0.pth', 'members.pth', 'member_0/iter_2.pth',
                 'member_0/iter_3.pth'):
        (tmp_path / 'work' / name).unlink()
    train(cfg, members=1)
    [member] = read_members(tmp_path / 'work' / 'member_0.pth')
    assert member['meta']['iterations'] == 3
    assert member['meta']['eta'] == eta


def test_standard_output_is_the_config(epochs, tmp_path):
    config, checkpoint = write_base(epochs, tmp_path)
    config.write_text("print('a config may print')\n" + config.read_text())
    done = subprocess.run(
        [sys.executable, '-m', 'abnn_mmseg.cli.init', config.name,
         checkpoint.name], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (tmp_path / 'my_abnn.py').write_text(done.stdout)
    cfg = Config.fromfile(tmp_path / 'my_abnn.py')
    assert cfg.load_from == 'my.pth'
    assert "_base_ = ['./my_config.py']" in done.stdout
    assert 'a config may print' not in done.stdout
    assert 'BNL layers' in done.stderr
    assert f'It belongs in {tmp_path}' in done.stderr


def test_the_page_shows_what_is_written():
    name = ZOO['SegFormer MiT-B0'].config
    text = init.child_config(
        init.read_base(f'mmseg::{name}'), './my_segformer.py',
        'my_segformer.pth')
    page = Path(__file__).resolve().parents[2] / 'docs/init.md'
    assert f'```python\n{text}```' in page.read_text()


def other_weights(config, checkpoint):
    state = torch.load(checkpoint)['state_dict']
    state.pop('decode_head.conv_seg.weight')
    torch.save(state, checkpoint)


def another_model(config, checkpoint):
    text = config.read_text().replace('EncoderDecoder', 'DepthEstimator')
    config.write_text(text)


def a_posterior(config, checkpoint):
    config.write_text(config.read_text() + textwrap.dedent('''
        model['posterior'] = dict(type='BNLPosterior')
        '''))


def a_pure_python_config(config, checkpoint):
    config.write_text('from mmseg.models import EncoderDecoder\n' +
                      config.read_text().replace(
                          "'EncoderDecoder'", 'EncoderDecoder'))


def a_file_there(config, checkpoint):
    (config.parent / 'my_abnn.py').write_text('')


@pytest.mark.parametrize('spoil, message', [
    (other_weights, 'my.pth does not fit the model: 1 of .* tensors'),
    (another_model, "'DepthEstimator' .* no Bayesian counterpart"),
    (a_posterior, 'has a posterior already; give the config'),
    (a_pure_python_config, 'is a pure Python config .*; dump it'),
    (a_file_there, 'my_abnn.py exists; choose another name'),
])
def test_what_cannot_work_is_refused_with_a_sentence(
        epochs, tmp_path, spoil, message):
    config, checkpoint = write_base(epochs, tmp_path)
    spoil(config, checkpoint)
    with pytest.raises(ValueError, match=message):
        run_init(config, checkpoint, '-o', tmp_path / 'my_abnn.py')


def test_a_config_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match='none.py does not exist'):
        run_init(tmp_path / 'none.py', tmp_path / 'my.pth')
