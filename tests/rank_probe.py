"""A hook that writes down what each process of a training draws."""
import torch
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmseg.registry import HOOKS


@HOOKS.register_module()
class RankProbe(Hook):
    """What eta is, and what noise a norm would draw after the first step."""

    def after_train_iter(self, runner, batch_idx, *args, **kwargs):
        if batch_idx == 0:
            model = runner.model.module
            torch.save(
                dict(eta=model.decode_head.loss_decode.eta,
                     noise=model.backbone.bn1.draw(torch.zeros(1, 1))),
                f'{runner.work_dir}/rank_{get_rank()}.pt')
