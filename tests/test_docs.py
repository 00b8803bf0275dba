"""What README and docs show is what the package does: code runs, configs
build, commands parse."""
import argparse
import ast
import inspect
import re
import runpy
import shlex
import sys
import tempfile
from functools import cached_property
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmcv.transforms import Compose
from mmengine.config import Config
from mmengine.optim import build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS, init_default_scope
from mmengine.runner import Runner
from mmseg.registry import DATASETS, HOOKS, METRICS, MODELS, VISUALIZERS
from sketches import abnn_config, config
from small_zoo import narrow
from toys import CLASSES, build, toy_config

from abnn_mmseg.cli.main import command_parser
from abnn_mmseg.comparison.compare import choose_methods
from abnn_mmseg.deploy.onnx import export_program, save_onnx
from abnn_mmseg.engine.loading import build_segmentor, forget_pretrained
from abnn_mmseg.engine.test_sets import choose_posteriors, choose_test_sets
from abnn_mmseg.members.files import fingerprint, norm_state, save_members

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / 'README.md', *sorted((ROOT / 'docs').glob('*.md'))]
SOURCES = '\n'.join(
    path.read_text() for folder in ('abnn_mmseg', 'tools')
    for path in (ROOT / folder).rglob('*.py'))
SCORES = ('entropy', 'mutual_information')
# Names in a config that are no setting: for mmengine, or for other lines.
FRAGMENTS = {'_base_', 'custom_imports', 'vis_backends', 'dataset'}


def blocks(page):
    """Python of a page, with the number of its first line."""
    text = page.read_text()
    for match in re.finditer(r'^```python\n(.*?)^```', text, re.M | re.S):
        yield text[:match.start()].count('\n') + 2, match[1]


def is_config(code):
    """Assignments that call nothing but ``dict``."""
    tree = ast.parse(code)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    return all(isinstance(n, ast.Assign) for n in tree.body) and all(
        isinstance(n.func, ast.Name) and n.func.id == 'dict' for n in calls)


CONFIGS = [
    pytest.param(code, id=f'{page.name}:{line}')
    for page in PAGES for line, code in blocks(page)
    # tests/test_tutorial.py runs the tutorial, in its order.
    if is_config(code) and page.name != 'tutorial.md']
SCRIPTS = [
    pytest.param([code for _, code in blocks(page) if not is_config(code)],
                 id=page.name)
    for page in PAGES if not all(is_config(c) for _, c in blocks(page))]


class World:
    """Files for the paths that an example names, by what they end in."""

    def __init__(self, folder, sketch):
        self.folder, self.sketch = folder, sketch
        self.base, self.abnn = folder / 'toy.pth', folder / 'toy_abnn.py'
        plain = config(sketch, folder)
        bayesian = abnn_config(sketch, folder, self.base)
        for cfg in (plain, bayesian):
            # All four stages of a ResNet, for examples that name one.
            cfg.model.backbone.update(
                num_stages=4, strides=(1, 2, 1, 1), dilations=(1, 1, 1, 1))
        self.configs = dict(plain=plain, bayesian=bayesian)
        bayesian.model.scores = SCORES
        bayesian.dump(self.abnn)
        # As a runner writes it: mmseg's functions read its meta data.
        torch.save(dict(state_dict=build(plain.model).state_dict(), meta={}),
                   self.base)
        (folder / '_base_').symlink_to(ROOT / 'configs/_base_')

    def provide(self, code):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                path = self.folder / node.value
                make = self.makers(path.name).get(
                    '/' if node.value.endswith('/') else path.suffix)
                if make and '::' not in node.value and not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    make(path)

    def makers(self, name):
        kind = 'bayesian' if 'abnn' in name else 'plain'
        return {
            '.py': self.configs[kind].dump,
            '.pth': self.members if 'member' in name else self.checkpoint,
            '/': lambda path: path.symlink_to(self.sketch / 'test_ood'),
            '.png': self.picture, '.jpg': self.picture,
            '.onnx': self.onnx, '.pt2': self.program}

    def checkpoint(self, path):
        path.write_bytes(self.base.read_bytes())

    def members(self, path):
        model = build(self.configs['bayesian'].model)
        member = dict(state=norm_state(model), meta={})
        save_members(path, [member, member], fingerprint(model))

    def picture(self, path):
        cv2.imwrite(str(path), np.zeros((32, 64, 3), np.uint8))

    @cached_property
    def exported(self):
        """The smallest network that the tool can export."""
        cfg = toy_config(
            auxiliary=False, type='BayesianEncoderDecoder',
            posterior=dict(type='DeterministicPosterior'), scores=SCORES)
        cfg['backbone'].update(
            num_stages=1, strides=(1, ), dilations=(1, ), out_indices=(0, ))
        cfg['decode_head'] = dict(
            type='FCNHead', in_channels=8, in_index=0, channels=8,
            num_convs=0, concat_input=False, num_classes=CLASSES)
        model = build(cfg)
        return export_program(model, (32, 64)), model

    def program(self, path):
        torch.export.save(self.exported[0], path)

    def onnx(self, path):
        save_onnx(*self.exported, path)


@pytest.fixture(scope='module')
def world(tmp_path_factory, sketch):
    init_default_scope('mmseg')
    return World(tmp_path_factory.mktemp('world'), sketch)


@pytest.mark.parametrize('scripts', SCRIPTS)
def test_code_runs(scripts, world, monkeypatch):
    """One block of a page after the other, as one reads them."""
    monkeypatch.chdir(world.folder)
    # A reader's own picture; all else the page must import.
    names = dict(image=torch.zeros(1, 32, 64, 3).byte())
    for code in scripts:
        if 'import onnxruntime' in code:
            pytest.importorskip('onnxruntime')
        world.provide(code)
        exec(compile(code, 'example', 'exec'), names)
    assert set(names) > {'image', '__builtins__'}, 'no block ran'


@pytest.mark.parametrize('code', CONFIGS)
def test_a_config_builds(code, world, monkeypatch):
    """Over the base it names, or over one that has a Bayesian toy."""
    monkeypatch.chdir(world.folder)
    world.provide(code)
    if '_base_' not in code:
        code = f'_base_ = {str(world.abnn)!r}\n{code}'
    path = world.folder / 'example.py'
    path.write_text(code)
    cfg = Config.fromfile(path)
    names = {node.targets[0].id for node in ast.parse(code).body}
    for name in names - FRAGMENTS:
        assert is_read(name), f'nobody reads {name}'
        BUILDERS.get(name, lambda cfg: None)(cfg)
    if 'dataset' in names:
        build_dataset(cfg.dataset)


def test_the_whole_change_also_fits_a_base_with_adamw(tmp_path):
    """What its optimizer did, spared norms and warm-up, is gone."""
    code = next(code for _, code in blocks(ROOT / 'README.md')
                if is_config(code))
    segformer = ('mmseg::segformer/'
                 'segformer_mit-b0_8xb1-160k_cityscapes-1024x1024.py')
    code, count = re.subn(r"(?<=^_base_ = ').*?(?=')", segformer, code)
    assert count == 1
    (tmp_path / 'example.py').write_text(code)
    cfg = Config.fromfile(tmp_path / 'example.py')
    forget_pretrained(cfg.model)
    narrow(cfg.model, 8)
    optimizer = build_model(cfg).optimizer
    assert isinstance(optimizer, torch.optim.SGD)
    assert {(group['lr'], group['weight_decay'])
            for group in optimizer.param_groups} == {(0.02, 1e-4)}
    [decay] = [PARAM_SCHEDULERS.build(dict(scheduler, optimizer=optimizer))
               for scheduler in cfg.param_scheduler]
    assert decay.end == cfg.train_cfg.max_iters
    assert cfg.train_cfg.type == 'MemberTrainLoop'


def is_read(setting):
    return setting in inspect.signature(Runner).parameters or re.search(
        rf"cfg(\.get\('|\.){setting}\b", SOURCES)


def build_model(cfg):
    model = build(cfg.model)
    wrapper = build_optim_wrapper(model, cfg.optim_wrapper)
    # Files of members or of a student come with the weights of a base.
    if model.posterior.member_files is None:
        [sample] = model.predict(torch.randn(1, 3, 64, 96))
        assert set(sample.uncertainty.keys()) == set(model.scores)
    return wrapper


def build_dataset(dataset):
    """All but its images, which nobody has here."""
    DATASETS.build(dict(dataset, lazy_init=True))


def build_test_sets(cfg):
    for test_set in choose_test_sets(cfg, []).values():
        build_dataset(test_set.dataloader.dataset)
        for metric in test_set.evaluator:
            METRICS.build(metric)


def build_posteriors(cfg):
    model = build(cfg.model)
    for posterior in choose_posteriors(cfg, []).values():
        MODELS.build(posterior).attach(model)


def build_methods(cfg):
    for method in choose_methods(cfg, None):
        assert build_segmentor(method.cfg, method.checkpoints).scores


BUILDERS = dict(
    model=build_model, test_sets=build_test_sets, posteriors=build_posteriors,
    methods=build_methods,
    custom_hooks=lambda cfg: [HOOKS.build(hook) for hook in cfg.custom_hooks],
    # mmengine finds visualizers by name, and others must not find this one.
    visualizer=lambda cfg: VISUALIZERS.build(
        dict(cfg.visualizer, name='docs', save_dir=tempfile.mkdtemp())))


def commands(page):
    """Commands in blocks, in indented lines, and whole ones in a sentence."""
    text = re.sub(r'^```python\n.*?^```', '', page.read_text(),
                  flags=re.M | re.S).replace('\\\n', ' ')
    fenced = '\n'.join(re.findall(r'^```\w*\n(.*?)^```', text, re.M | re.S))
    found = fenced.splitlines() + re.findall(r'^    (\S.*)', text, re.M)
    found += re.findall(
        r'`(python tools/[^`.]+(?:\.py[^`]*)?|make [^`]+)`', text)
    starts = ('abnn ', 'python ', 'torchrun ', 'srun ', 'make ', 'bash ',
              'pip ', 'tools/')
    return [line.strip() for line in found if line.strip().startswith(starts)]


COMMANDS = [pytest.param(commands(page), id=page.name)
            for page in PAGES if commands(page)]


class Parsed(BaseException):
    """A tool has understood its arguments."""


@pytest.mark.parametrize('lines', COMMANDS)
def test_commands_parse(lines, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    parse = argparse.ArgumentParser.parse_args

    def parse_only(self, *args):
        raise Parsed(parse(self, *args))

    monkeypatch.setattr(argparse.ArgumentParser, 'parse_args', parse_only)
    said = {}
    for line in lines:
        words = shlex.split(line, comments=True)
        scripts = [word for word in words if word.endswith(('.py', '.sh'))]
        if words[0] == 'make':
            check_make(words[1:])
        elif words[0] == 'pip':
            check_extras(line)
        elif 'abnn' in words:
            # Alone, or behind what starts several processes.
            name, *arguments = words[words.index('abnn') + 1:]
            arguments = spelt_out(arguments, said.get(name))
            said[name] = arguments
            check_abnn(name, arguments, line, capsys)
        elif scripts[0].endswith('.sh'):
            assert (ROOT / scripts[0]).is_file(), line
        else:
            at = words.index(scripts[0]) + 1
            arguments = spelt_out(words[at:], said.get(scripts[0]))
            said[scripts[0]] = arguments
            monkeypatch.setattr(sys, 'argv', [scripts[0], *arguments])
            try:
                runpy.run_path(scripts[0], run_name='__main__')
            except Parsed:
                continue
            except SystemExit:
                pytest.fail(f'{line}\n{capsys.readouterr().err}')


def spelt_out(arguments, before):
    """With dots replaced by what the page wrote for this tool before."""
    if '...' not in arguments:
        return arguments
    at = arguments.index('...')
    return [*arguments[:at], *before, *arguments[at + 1:]]


def check_abnn(name, arguments, line, capsys):
    parser = command_parser(name)
    try:
        parser.parse_args(arguments)
    except Parsed:
        return
    except SystemExit:
        pytest.fail(f'{line}\n{capsys.readouterr().err}')


def check_make(words):
    text = (ROOT / 'Makefile').read_text()
    for word in words:
        name, is_variable, _ = word.partition('=')
        pattern = rf'\({name}\)|{name} \?=' if is_variable else rf'^{name}:'
        assert re.search(pattern, text, re.M), f'make {word}'


def check_extras(line):
    text = (ROOT / 'setup.py').read_text()
    for names in re.findall(r'\[([\w,]+)\]', line):
        for name in names.split(','):
            assert re.search(rf'^\s+{name}=', text, re.M), line


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page):
    named = re.findall(r'\b(?:tools|configs|tests|docs)/[\w/-]+\.\w+',
                       page.read_text())
    missing = [name for name in named
               if not (ROOT / name).exists() and '/my_' not in name]
    assert not missing


@pytest.mark.parametrize(
    ('channels', 'dtype'), [(3, np.uint16), (4, np.uint8)])
def test_the_loader_of_choosing_keeps_depth_and_channels(
        channels, dtype, tmp_path):
    page = (ROOT / 'docs' / 'choosing.md').read_text()
    [options] = re.findall(r"`(color_type=.*?)` in it", page, re.S)
    assert "dict(type='Normalize', mean=[...], std=[...], to_rgb=False)" in (
        page)
    image = np.full((4, 6, channels), np.iinfo(dtype).max, dtype)
    cv2.imwrite(str(tmp_path / 'a.png'), image)
    run = Compose([
        dict(type='LoadImageFromFile', **eval(f'dict({options})')),
        dict(type='Normalize', mean=[1.] * channels, std=[2.] * channels,
             to_rgb=False)])
    loaded = run(dict(img_path=str(tmp_path / 'a.png')))['img']
    assert np.array_equal(loaded, (image - np.float32(1)) / 2)
