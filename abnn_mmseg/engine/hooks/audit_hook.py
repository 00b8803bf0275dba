"""A hook that checks that the model is Bayesian before it runs."""
from mmengine.hooks import Hook
from mmengine.runner import Runner
from mmseg.registry import HOOKS

from abnn_mmseg.engine.runners import bare_model
from abnn_mmseg.models.bayesian_norm import bayesian_layers
from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.checkpoints import check_weights


@HOOKS.register_module()
class AuditHook(Hook):
    """Logs what trains or predicts; stops if layers were replaced or frozen.

    ``sync_bn='torch'`` and fused convolutions replace Bayesian layers, and
    ``frozen_stages`` freezes them at every ``train()``, without a message.
    """

    priority = 'VERY_LOW'

    def before_train(self, runner: Runner) -> None:
        """Check the model and what trains, and log it."""
        model = bare_model(runner.model)
        audit(model)
        model.train()
        check_trainable(model)
        runner.logger.info(describe(model))

    def before_val(self, runner: Runner) -> None:
        """Check the model."""
        audit(bare_model(runner.model))

    def before_test(self, runner: Runner) -> None:
        """Check the model and log how many networks predict."""
        model = bare_model(runner.model)
        audit(model)
        name = type(model.posterior).__name__
        runner.logger.info(f'{describe_layers(model)}, {name} of '
                           f'{len(model.posterior)} networks')


def audit(model: BayesianSegmentor) -> None:
    """Raise unless all converted norms are still Bayesian and finite."""
    layers = bayesian_layers(model)
    lost = sorted(set(model.conversion.converted) - set(layers))
    if lost:
        found = type(model.get_submodule(lost[0])).__name__
        raise RuntimeError(
            f'{len(lost)} of {len(model.conversion.converted)} Bayesian '
            f'layers are gone, such as {lost[0]} (now {found}); remove what '
            'replaced them: `sync_bn` in the config, or fuse_conv_bn.')
    for name, module in model.named_modules():
        if getattr(module, 'efficient_conv_bn_eval_forward', None):
            raise RuntimeError(
                f'{name} computes its norm within the convolution, so without '
                'noise; remove efficient_conv_bn_eval from the config.')
    check_weights(model.state_dict(), 'the model')


def check_trainable(model: BayesianSegmentor) -> None:
    """Raise unless exactly the norms that should train do."""
    expected = {
        f'{name}.{key}'
        for name in model.trainable
        for key, _ in model.get_submodule(name).named_parameters()
    }
    actual = {n for n, p in model.named_parameters() if p.requires_grad}
    frozen, extra = sorted(expected - actual), sorted(actual - expected)
    if frozen:
        raise RuntimeError(
            f'{len(frozen)} normalization parameters got frozen again, such '
            f'as {frozen[0]}; write frozen_stages=-1 in the backbone.')
    if extra:
        raise RuntimeError(
            f'{len(extra)} parameters besides the norms would train, such as '
            f'{extra[0]}; remove what sets their requires_grad.')


def describe(model: BayesianSegmentor) -> str:
    """Text such as "70 BNL layers, 76,480 of 43.6 M parameters train"."""
    parameters = list(model.parameters())
    total = sum(p.numel() for p in parameters)
    trained = sum(p.numel() for p in parameters if p.requires_grad)
    return (f'{describe_layers(model)}, {trained:,} of {total / 1e6:.1f} M '
            f'parameters train ({100 * trained / total:.2f} %)')


def describe_layers(model: BayesianSegmentor) -> str:
    """Text such as "70 BNL layers (70 batch)"."""
    return (f'{len(bayesian_layers(model))} BNL layers '
            f'({model.conversion.summary()})')
