"""Private interfaces of dependencies: these tests name what has changed."""
import subprocess
import sys

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.logging import HistoryBuffer
from mmengine.runner import BaseLoop, Runner
from mmengine.runner.checkpoint import load_state_dict
from mmseg.registry import MODELS
from torch import nn
from toys import toy_config

from abnn_mmseg import compat


def test_vmap_shows_in_a_tensor():
    seen = []

    def look(x):
        seen.append(compat.is_vmapped(x))
        return x

    x = torch.ones(2, 3)
    torch.vmap(look)(x)
    assert seen == [True] and not compat.is_vmapped(x)


def test_writing_counts_versions():
    x = torch.zeros(2)
    before = compat.version_of(x)
    x.add_(1)
    assert compat.version_of(x) == before + 1
    with torch.inference_mode():
        assert compat.version_of(torch.zeros(2)) is None


def test_other_parameters_leave_the_module_alone():
    layer = nn.Linear(2, 2)
    x, weight = torch.randn(3, 2), torch.randn(2, 2)
    expected = nn.functional.linear(x, weight, layer.bias)
    before = layer(x)
    other = compat.with_parameters(layer, weight=weight)
    assert torch.equal(other(x), expected)
    assert torch.equal(layer(x), before)


def test_export_runs_stand_ins_that_share_the_identity_of_their_module():
    seen = []

    class Layer(nn.Identity):
        def forward(self, x):
            seen.append((self, compat.identity_of(self)))
            return x + 1

    layer, other = Layer(), nn.Identity()
    model = nn.Sequential(layer, other, other)
    torch.export.export(model, (torch.ones(2), ), strict=False)
    assert all(module is not layer for module, _ in seen)
    assert {number for _, number in seen} == {compat.identity_of(layer)}
    assert compat.identity_of(layer) != compat.identity_of(Layer())


def test_arrays_are_made_by_the_function_that_pickles_name():
    for value in (np.zeros(1), np.float64(1)):
        assert value.__reduce__()[0] in compat.numpy_makers()


def test_a_runner_initializes_weights_where_we_stop_it():
    assert callable(Runner._init_model_weights)


@pytest.mark.parametrize('bgr_to_rgb', [False, True])
@pytest.mark.parametrize('mean', [None, [1., 2., 3.]])
def test_the_preprocessor_is_read_as_it_works(bgr_to_rgb, mean):
    std = None if mean is None else [4., 5., 6.]
    preprocessor = MODELS.build(dict(
        type='SegDataPreProcessor', mean=mean, std=std,
        bgr_to_rgb=bgr_to_rgb))
    image = torch.randint(0, 256, (3, 4, 5), dtype=torch.uint8)
    expected = preprocessor(dict(inputs=[image]))['inputs'][0]
    known = compat.Normalization(preprocessor)
    actual = image.flip(0).float() if known.reverse else image.float()
    if known.mean is not None:
        actual = (actual - known.mean) / known.std
    torch.testing.assert_close(actual, expected.float())


def test_a_runner_tests_with_the_loop_it_was_given(tmp_path):
    runner = Runner(
        model=MODELS.build(toy_config()), work_dir=str(tmp_path),
        experiment_name='given_loop', default_scope='mmseg')

    class Given(BaseLoop):
        def run(self):
            return dict(number=3)

    compat.put_test_loop(runner, Given(runner, []))
    assert runner.test() == dict(number=3)


def test_a_runner_forgets_the_checkpoint_it_would_resume(tmp_path):
    path = str(tmp_path / 'none.pth')
    runner = Runner(
        model=MODELS.build(toy_config()), work_dir=str(tmp_path),
        load_from=path, resume=True, experiment_name='forgets',
        default_scope='mmseg')
    assert compat.loaded_from(runner) == path
    with pytest.raises(FileNotFoundError):
        runner.load_or_resume()
    compat.forget_checkpoints(runner)
    runner.load_or_resume()
    assert compat.loaded_from(runner) is None


def test_a_graph_that_cannot_be_made_raises_our_name_for_it():
    class Model(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises((compat.GraphError, RuntimeError)):
        torch.export.export(Model(), (torch.ones(2), ), strict=False)


def test_norms_and_dropouts_have_common_bases():
    assert issubclass(nn.BatchNorm2d, compat.AnyBatchNorm)
    assert issubclass(nn.SyncBatchNorm, compat.AnyBatchNorm)
    assert issubclass(nn.InstanceNorm2d, compat.AnyInstanceNorm)
    assert issubclass(nn.Dropout2d, compat.AnyDropout)


@pytest.mark.parametrize('shape', [(4, 3), (4, 3, 5), (4, 3, 5, 6)])
def test_a_batch_norm_takes_any_rank(shape):
    x = torch.randn(shape)
    norm = compat.BatchNormOfAnyRank(3)
    torch.testing.assert_close(norm(x).mean([0, *range(2, x.dim())]),
                               torch.zeros(3), atol=1e-5, rtol=0)


def test_trees_are_mapped_and_listed():
    tree = dict(a=(1, 2), b=[3])
    assert compat.tree_map(lambda v: v + 1, tree) == dict(a=(2, 3), b=[4])
    assert compat.tree_leaves(tree) == [1, 2, 3]


@pytest.mark.parametrize('load', [
    lambda model, state: model.load_state_dict(state),
    lambda model, state: load_state_dict(model, state)])
def test_a_state_is_prepared_whoever_loads_it(load):
    class Doubling(compat.PreparesState, nn.Linear):
        def prepare_state(self, state_dict, prefix):
            state_dict[f'{prefix}weight'] = 2 * state_dict[f'{prefix}weight']

    model = nn.Sequential(Doubling(2, 2, bias=False))
    load(model, {'0.weight': torch.ones(2, 2)})
    assert torch.equal(model[0].weight, torch.full((2, 2), 2.))


def test_a_bare_loop_builds_no_dataloader():
    class Loop(compat.BareLoop):
        def run(self):
            return self.runner, self.dataloader

    assert Loop('runner', dict(batch_size=2)).run() == (
        'runner', dict(batch_size=2))


def test_bases_are_found_by_a_name_of_ours(tmp_path):
    (tmp_path / 'base.py').write_text('value = 3')
    child = tmp_path / 'child.py'
    child.write_text("_base_ = 'here::base'")
    compat.find_bases_with(
        lambda name: str(tmp_path / 'base.py') if name == 'here::base'
        else None)
    assert Config.fromfile(child).value == 3
    # The names of the package and those of mmengine go on.
    child.write_text("_base_ = 'abnn_mmseg::abnn_deeplabv3plus_muad.py'")
    assert Config.fromfile(child).model.posterior.type == 'BNLPosterior'
    child.write_text("_base_ = './base.py'")
    assert Config.fromfile(child).value == 3


def test_mmseg_s_tools_read_the_checkpoints_of_runners(tmp_path):
    """mmengine up to 0.10.7 leaves all to torch.load, which refuses log
    buffers by default."""
    buffer = HistoryBuffer([0.5], [1])
    torch.save(dict(state_dict={}, message_hub=dict(loss=buffer)),
               tmp_path / 'iter_1.pth')
    # mmengine's forks forget what is allowed when they have loaded a file.
    subprocess.run([
        sys.executable, '-c', 'import abnn_mmseg, sys, torch\n'
        'content = torch.load(sys.argv[1], weights_only=True)\n'
        "assert content['message_hub']['loss'].current() == 0.5",
        tmp_path / 'iter_1.pth'], check=True)
