"""Error of maps made of few draws, or in bfloat16."""
import argparse
import statistics

import torch
from torch import Tensor

from abnn_mmseg.models.segmentor import BayesianSegmentor
from abnn_mmseg.utils.console import progress
from benchmarks.networks import attached, build, predict

DRAWS = (2, 4, 8, 16, 32, 64)
SCORES = ('entropy', 'mutual_information')
SEEDS = range(4)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The network of the maps; it should have trained weights."""
    parser.add_argument(
        '--error-config', help='network of the map errors (default: CONFIG)')
    parser.add_argument('--error-checkpoint', help='its trained weights')
    parser.add_argument('--error-image', help='an image (default: noise)')
    parser.add_argument(
        '--error-size', type=int, nargs=2, default=(96, 192),
        metavar=('HEIGHT', 'WIDTH'), help='input of the map errors')
    parser.add_argument(
        '--reference', type=int, default=256, help='draws of the reference')


@torch.no_grad()
def map_errors(args: argparse.Namespace) -> dict:
    """Errors by number of draws, and of bfloat16."""
    model = build(args.error_config or args.config,
                  args.error_checkpoint or args.checkpoint, args.device)
    model.scores = SCORES
    images = image(model, args)
    return dict(
        errors=draws_errors(model, images, args.reference),
        bfloat16_error=precision_errors(model, images, args.draws))


def draws_errors(model: BayesianSegmentor, images: Tensor,
                 reference: int) -> list[dict]:
    """Relative error of maps with K draws against a long reference.

    ``|map - reference| / |reference|`` in the 2-norm, averaged over four
    seeds other than the reference's; antithetic pairs and plain draws.
    """
    exact = maps(model, images, reference, seed=999)
    rows = []
    for draws in progress(DRAWS, 'Map errors', len(DRAWS)):
        for antithetic in (True, False):
            found = [
                relative_errors(
                    maps(model, images, draws, antithetic=antithetic,
                         seed=seed), exact) for seed in SEEDS
            ]
            rows.append(dict(draws=draws, antithetic=antithetic, **{
                score: statistics.mean(row[score] for row in found)
                for score in SCORES
            }))
    return rows


def precision_errors(model: BayesianSegmentor, images: Tensor,
                     draws: int) -> dict[str, float]:
    """Relative error of the same draws in bfloat16."""
    return relative_errors(
        maps(model, images, draws, precision='bfloat16'),
        maps(model, images, draws))


def maps(model: BayesianSegmentor, images: Tensor, draws: int,
         **options) -> dict[str, Tensor]:
    posterior = attached(model, draws, **options)
    fields = predict(model, images, posterior)[0].uncertainty
    return {score: fields.get(score) for score in SCORES}


def relative_errors(found: dict[str, Tensor],
                    exact: dict[str, Tensor]) -> dict[str, float]:
    return {
        score: ((found[score] - exact[score]).norm()
                / exact[score].norm()).item() for score in SCORES
    }


def image(model: BayesianSegmentor, args: argparse.Namespace) -> Tensor:
    """A given image, normalized by the config, or noise."""
    if not args.error_image:
        generator = torch.Generator().manual_seed(0)
        noise = torch.randn(1, 3, *args.error_size, generator=generator)
        return noise.to(args.device)
    import mmcv
    picture = mmcv.imread(args.error_image)
    picture = mmcv.imresize(picture, tuple(args.error_size[::-1]))
    data = torch.from_numpy(picture).permute(2, 0, 1)
    processed = model.data_preprocessor(dict(inputs=[data.to(args.device)]))
    return processed['inputs']
