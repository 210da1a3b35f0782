"""What the second paper proves to exist, built and run; and what layers of its kind learn, beside the closed forms."""

from __future__ import annotations

import pytest
import torch
from torch import Generator, nn
from torch.nn import functional

from manyheads.conditioning.theory import majority_vote, one_head, plateau, splitting_floor
from manyheads.data.point_clouds import farthest
from manyheads.models.constructions import FullValueAttention, MajorityVote, biased_layer, exact_encoder, exact_layer
from manyheads.tasks import NearestNeighbor, open_task
from manyheads.tasks.points import SPAN, Neighbors

CPU = torch.device("cpu")


def error(task: NearestNeighbor, model: nn.Module, rows: int = 2000) -> float:
    """Mean squared distance to the answers."""
    sample = Neighbors(task).draw(Generator().manual_seed(0), rows)
    with torch.no_grad():
        return Neighbors(task).error(model(sample[0]), *sample).mean().item()


# ------------------------------------------------------------------------------------------------------------ full rank
@pytest.mark.parametrize("points", ["sphere", "orthogonal", "doubled"])
@pytest.mark.parametrize("tokens", [2, 8, 16, 256])
def test_one_full_rank_head_finds_the_nearest_point_for_any_length(points: str, tokens: int) -> None:
    dim = tokens if points == "orthogonal" else 12
    assert error(NearestNeighbor(dim, tokens, "separate", points), exact_layer(dim), 100) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("tokens", [2, 8, 64, 512])
def test_one_full_rank_head_of_the_trained_model_finds_the_farthest_for_any_length(tokens: int) -> None:
    task = NearestNeighbor(16, tokens)
    points = Neighbors(task).draw(Generator().manual_seed(0), 20)[0].double()
    answers = points.take_along_dim(farthest(points)[..., None], dim=1)
    with torch.no_grad():  # in float64: of two points equally far to six digits softmax would take both
        assert (
            Neighbors(task).error(exact_encoder(16, tokens, large=1e10).double()(points), points, answers).max() < 1e-12
        )
        assert Neighbors(task).error(exact_encoder(16, tokens)(points.float()), points, answers).mean() < 0.002


def test_a_head_of_less_rank_does_not() -> None:
    layer = exact_layer(16)
    layer.q.data, layer.k.data = layer.q.data[..., :8], layer.k.data[..., :8]
    assert error(NearestNeighbor(16, 2, "separate", "orthogonal"), layer) > 0.3


@pytest.mark.parametrize(("dim", "tokens"), [(6, 2), (8, 4)])
def test_quadratically_many_full_rank_heads_make_the_biased_target(dim: int, tokens: int) -> None:
    count = 2 * dim**2 + 1
    layer = biased_layer(dim, tokens, torch.linspace(-SPAN, SPAN, count) * 2**0.5)
    task = NearestNeighbor(dim, tokens, "separate", "orthogonal", biases=count)
    assert error(task, layer, 500) < 1e-8
    assert error(task, exact_layer(dim), 500) > 0.5  # and one head, which knows no bias, does not


# ------------------------------------------------------------------------------------------------------------- rank one
@pytest.mark.parametrize(("dim", "heads"), [(8, 129), (16, 513), (64, 1025)])
def test_two_layers_of_rank_one_heads_vote_as_well_as_the_law_says(dim: int, heads: int) -> None:
    task = NearestNeighbor(dim, 2, "separate", "orthogonal")
    expected = float(majority_vote(dim, heads))
    # a vote that is right gives the point itself, one that is wrong an error of 2
    assert error(task, MajorityVote(dim, heads), 1500) == pytest.approx(expected, rel=0.15)


def test_the_vote_passes_what_one_layer_can_reach() -> None:
    vote = MajorityVote(16, 4097)
    assert {vote.votes.q.shape[-1], vote.votes.k.shape[-1], vote.choice.q.shape[-1], vote.choice.k.shape[-1]} == {1}
    assert error(NearestNeighbor(16, 2, "separate", "orthogonal"), vote) < 0.08 < plateau(16)


# ------------------------------------------------------------------------------------------------------- trained layers
def trained(heads: int, rank: int, dim: int = 8, steps: int = 800) -> float:
    """Held-out error of one layer of the theory's kind after a few hundred steps of Adam."""
    work = open_task(NearestNeighbor(dim, 2, "separate", "orthogonal"), CPU, 0, 256)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = FullValueAttention(dim, heads, rank, separate=True)
    optimizer = torch.optim.Adam(layer.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.02, total_steps=steps)
    for step in range(steps):
        optimizer.zero_grad()
        work.loss(layer, *work.batch(step, range(256))).backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        return work.score(work.tally(layer))["loss"]


def test_a_full_rank_head_learns_the_target() -> None:
    assert trained(1, 8) < 0.05


@pytest.mark.parametrize("rank", [4, 2])
def test_one_head_of_lower_rank_learns_what_the_formula_allows(rank: int) -> None:
    assert trained(1, rank) == pytest.approx(float(one_head(rank / 8)), abs=0.02)


def test_two_half_rank_heads_stay_above_the_splitting_floor() -> None:
    found = trained(2, 4)
    assert found > float(splitting_floor(2)) - 0.005
    assert found < float(one_head(0.5)) - 0.1  # but two are better than one


def test_rank_one_heads_come_to_the_plateau_of_degree_one() -> None:
    found = trained(48, 1)
    assert found == pytest.approx(plateau(8), abs=0.01)
    assert found > plateau(8, 3)


# ------------------------------------------------------------------------------------------------------------ the layer
def test_the_layer_is_its_formula() -> None:
    torch.manual_seed(0)
    layer, x = FullValueAttention(5, 3, 2, positions=4).double(), torch.randn(2, 4, 5).double()
    nn.init.normal_(layer.bias)
    expected = sum(
        functional.softmax((x @ layer.q[h]) @ (x @ layer.k[h]).mT + layer.bias[h], dim=-1) @ x @ layer.v[h]
        for h in range(3)
    )
    assert torch.allclose(layer(x), expected, atol=1e-12)
    alone = FullValueAttention(5, 3, 2, separate=True).double()
    expected = sum(
        functional.softmax((x[:, 3:] @ alone.q[h]) @ (x[:, :3] @ alone.k[h]).mT, dim=-1) @ x[:, :3] @ alone.v[h]
        for h in range(3)
    )
    assert torch.allclose(alone(x), expected, atol=1e-12)
    bound = (6 / 7) ** 0.5
    assert bound * 0.8 < layer.q.abs().max() <= bound
