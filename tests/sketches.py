"""Configs on a tiny MUAD-sketch, small enough for seconds."""
from mmengine.config import Config
from toys import toy_config

from abnn_mmseg.members.files import fingerprint, norm_state, save_members

SIZE = (64, 32)


def config(sketch, work_dir, iterations=4, **model) -> Config:
    """MUAD-sketch with the toy network; ``model`` overrides the segmentor."""
    cfg = Config.fromfile(
        'configs/deeplabv3plus_r18-w24-d16_1xb8-1400_muad-sketch-128x256.py')
    network = toy_config(auxiliary=False, **model)
    network['decode_head']['num_classes'] = 15
    network['data_preprocessor'] = dict(
        cfg.model.data_preprocessor, size=SIZE[::-1])
    cfg.model = network
    cfg.work_dir = str(work_dir)
    for split in ('train', 'val', 'test'):
        loader = cfg[f'{split}_dataloader']
        loader.num_workers = 0
        loader.dataset.data_root = str(sketch)
    cfg.train_dataloader.batch_size = 2
    cfg.train_cfg = dict(
        type='IterBasedTrainLoop', max_iters=iterations,
        val_interval=iterations)
    cfg.param_scheduler = []
    cfg.default_hooks.checkpoint.interval = 2
    cfg.default_hooks.pop('visualization')
    cfg.log_level = 'WARNING'
    return cfg


def abnn_config(sketch, work_dir, base, **options) -> Config:
    """Fine-tuning of the toy: three members of four steps."""
    cfg = config(
        sketch, work_dir, type='BayesianEncoderDecoder',
        posterior=dict(type='BNLPosterior', alpha=0.2, samples=2),
        **{'prediction': 'posterior_mean', **options})
    cfg.model.decode_head.loss_decode = dict(
        type='RandomPriorCrossEntropyLoss')
    cfg.optim_wrapper = dict(
        type='OptimWrapper', optimizer=dict(
            type='SGD', lr=0.05, momentum=0.9, nesterov=True))
    cfg.load_from = str(base)
    return cfg


def save_two_members(model, path) -> None:
    """The model's own norms, and the same with other biases."""
    state = norm_state(model)
    other = {k: v + 0.1 if k.endswith('.bias') else v
             for k, v in state.items()}
    save_members(path, [dict(state=s, meta={}) for s in (state, other)],
                 fingerprint(model))
