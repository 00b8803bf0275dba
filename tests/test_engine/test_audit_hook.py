import pytest
import torch
from sketches import abnn_config
from toys import bayesian_config, build

from abnn_mmseg.engine import train
from abnn_mmseg.engine.hooks.audit_hook import audit, check_trainable, describe


def test_the_audit_counts_layers_and_parameters():
    model = build(bayesian_config(auxiliary=False))
    norms = sum(p.numel() for p in model.parameters() if p.requires_grad)
    text = describe(model)
    layers = len(model.conversion.converted)
    assert text.startswith(f'{layers} BNL layers ({layers} batch), {norms:,}')


def test_erased_layers_stop_the_run():
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(
        build(bayesian_config()))
    with pytest.raises(RuntimeError, match='layers are gone.*SyncBatchNorm'):
        audit(model)


def test_norms_inside_convolutions_stop_the_run():
    model = build(bayesian_config())
    model.decode_head.bottleneck.turn_on_efficient_conv_bn_eval()
    with pytest.raises(RuntimeError, match='decode_head.bottleneck computes'):
        audit(model)


def test_sync_bn_in_the_config_stops_the_run(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.sync_bn = 'torch'
    cfg.launcher = 'none'
    from abnn_mmseg.engine import trainer
    member = trainer.MemberTrainer(cfg, 1, None)
    member.model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(member.model)
    with pytest.raises(RuntimeError, match='sync_bn'):
        member.run()


def test_frozen_stages_stop_the_run(sketch, base, tmp_path):
    cfg = abnn_config(sketch, tmp_path, base)
    cfg.model.backbone.frozen_stages = 1
    with pytest.raises(RuntimeError, match='frozen_stages=-1'):
        train(cfg, members=1)


def test_other_parameters_that_would_train_stop_the_run():
    model = build(bayesian_config())
    model.backbone.conv1.weight.requires_grad_(True)
    with pytest.raises(RuntimeError, match='backbone.conv1.weight'):
        check_trainable(model)


@pytest.mark.parametrize('value,message', [
    (float('nan'), 'NaN or inf'), (-1., 'negative variance')])
def test_damaged_weights_stop_the_run(value, message):
    model = build(bayesian_config())
    model.backbone.bn1.running_var[0] = value
    with pytest.raises(ValueError, match=message):
        audit(model)
