import pytest
import torch
from toys import bayesian_config, build

from abnn_mmseg.models.posteriors.draws import draw_signs

SHAPES = dict(a=torch.Size([64]), b=torch.Size([8, 1]))


def networks(eps, members):
    """The noise of the networks, in their order."""
    return eps.transpose(0, 1).flatten(0, 1)


@pytest.mark.parametrize('members,draws', [(1, 4), (3, 2), (3, 1)])
def test_signs_are_opposite_for_neighbouring_networks(members, draws):
    for eps in draw_signs(SHAPES, members, draws, 0).values():
        assert eps.shape[:2] == (members, draws)
        assert (eps.abs() == 1).all()
        one = networks(eps, members)
        for k in range(1, members * draws, 2):
            assert torch.equal(one[k], -one[k - 1])


def test_more_draws_do_not_change_the_first_ones():
    few, many = (networks(draw_signs(SHAPES, 3, draws, 1)['a'], 3)
                 for draws in (2, 4))
    assert torch.equal(many[:6], few)


@torch.no_grad()
def test_placement_holds_from_the_next_prediction_on(images):
    model = build(bayesian_config(samples=4))
    before = model.predict(images)[0].uncertainty.entropy
    model.posterior.placement = 'signs'
    after = model.predict(images)[0].uncertainty.entropy
    assert not torch.equal(before, after)
    again = build(bayesian_config(samples=4, posterior=dict(
        placement='signs'))).predict(images)[0].uncertainty.entropy
    assert torch.equal(after, again)
    model.posterior.placement = 'sign'
    with pytest.raises(ValueError, match="did you mean 'signs'"):
        model.predict(images)
