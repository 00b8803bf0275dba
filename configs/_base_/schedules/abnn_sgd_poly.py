# ABNN's fine-tuning: SGD with Nesterov momentum, as in the paper, and poly
# decay. The bases of a config may not share keys, and an ABNN config's first
# base has a schedule already, so the names are this file's own:
#
#     _base_ = ['./my_config.py', './_base_/schedules/abnn_sgd_poly.py']
#     optim_wrapper = dict(
#         _delete_=True, type='OptimWrapper', optimizer=_base_.abnn_optimizer)
#     param_scheduler = [dict(_base_.abnn_decay, end=800)]
#     train_cfg = dict(max_iters=800)
#
# `_delete_` drops what the base did to its optimizer, above all a
# `paramwise_cfg` that spares norms from weight decay: here only norms train,
# and their weight decay is the method's Gaussian prior N(0, s^2) on gamma and
# beta. MAP minimizes sum_i -log p(y_i | x_i) + |theta|^2 / (2 s^2); our loss
# is a mean, over the N labelled pixels of the training set, and SGD adds
# weight_decay / 2 * |theta|^2 to it, so
#
#     weight_decay = 1 / (N * s^2),    s = 1 / sqrt(N * weight_decay).
#
# Pixels of an image say much the same, so N is rather the number of images:
# 1e-4 and the 3420 images of MUAD's train split make s = 1.7.
abnn_optimizer = dict(
    type='SGD', lr=2e-3, momentum=0.9, nesterov=True, weight_decay=1e-4)
# Steps instead: dict(type='MultiStepLR', milestones=[400, 600], gamma=0.1,
# by_epoch=False). Warm-up: dict(type='LinearLR', start_factor=0.1, end=50,
# by_epoch=False) before it. Clipping: clip_grad=dict(max_norm=1.) in
# optim_wrapper. Averaging: custom_hooks=[dict(type='EMAHook')].
abnn_decay = dict(type='PolyLR', power=0.9, by_epoch=False)
