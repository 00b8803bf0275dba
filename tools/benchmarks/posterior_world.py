"""The small world in which a posterior can be sampled: images, and a base."""
import argparse
from pathlib import Path

from mmengine.config import Config

from abnn_mmseg.datasets.muad_sketch import make_muad_sketch
from abnn_mmseg.engine import train
from abnn_mmseg.fitting.norm_chain import HMCSettings
from abnn_mmseg.fitting.sampling import fit_hmc

BASE = 'configs/deeplabv3plus_r18-d16_1xb4-1100_muad-sketch-128x256.py'
ABNN = 'configs/abnn_deeplabv3plus_muad-sketch.py'
# Narrower than the demo's 128 x 256.
HEIGHT, WIDTH = 48, 96


class World:
    """Network, images and settings that all posteriors share.

    The base is trained on some images. The posterior is that of others,
    which the base has not seen: so the prior around its norms is honest, and
    every method is fitted to the very same images.

    Args:
        args (Namespace): Of ``tools/benchmark.py posterior``.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.folder = Path(args.work_dir)
        size = WIDTH, HEIGHT
        make_muad_sketch(
            self.folder / 'data', dict(
                train=args.base_images, val=args.test_images,
                test_id=args.test_images, test_ood=args.test_images),
            size, workers=1)
        make_muad_sketch(
            self.folder / 'new', dict(
                train=args.images, val=0, test_id=0, test_ood=0),
            size, seed=1, workers=1)
        self.base = self._base()

    def config(self, path: str, data: str = 'new') -> Config:
        """A config of the demo, narrower, that trains on these images."""
        cfg = Config.fromfile(path)
        model, width = cfg.model, self.args.width
        model.data_preprocessor.size = (HEIGHT, WIDTH)
        model.backbone.base_channels = width
        model.decode_head.update(
            in_channels=8 * width, channels=32, c1_in_channels=width,
            c1_channels=12)
        for split in ('train', 'val', 'test'):
            dataset = cfg[f'{split}_dataloader'].dataset
            root = data if split == 'train' else 'data'
            dataset.data_root = str(self.folder / root)
        cfg.default_hooks.pop('visualization', None)
        cfg.log_level = 'WARNING'
        cfg.resume = True
        return cfg

    def _base(self) -> str:
        cfg = self.config(BASE, 'data')
        cfg.work_dir = str(self.folder / 'base')
        count = cfg.train_cfg.max_iters = self.args.base_iterations
        cfg.train_cfg.val_interval = count
        cfg.param_scheduler = [dict(
            type='PolyLR', power=0.9, end=count, by_epoch=False)]
        cfg.default_hooks.checkpoint.interval = 100
        path = self.folder / 'base' / f'iter_{count}.pth'
        if not path.is_file():
            train(cfg)
        return str(path)

    def settings(self, temperature: float) -> HMCSettings:
        """Settings of the reference chains."""
        args = self.args
        return HMCSettings(
            samples=args.samples, burn_in=args.burn_in,
            prior_std=args.prior_std, temperature=temperature,
            effective_pixels=args.effective_pixels, batch=args.images,
            max_steps=args.max_steps)

    def hmc(self, temperature: float) -> tuple[str, dict]:
        """Samples of the posterior: all of them in a file, and the report.
        """
        name = f'hmc_{temperature:g}'
        path = str(self.folder / f'{name}.pth')
        report = fit_hmc(
            self.config(ABNN), self.base, path, str(self.folder / name),
            self.settings(temperature), self.args.chains, self.args.jobs,
            keep=self.args.chains * self.args.samples)
        return path, report
