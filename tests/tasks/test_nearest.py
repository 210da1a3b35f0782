"""The nearest-neighbour task: answers by brute force, data by place, what simple guesses score, mistakes told."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Generator, Tensor, nn

from manyheads.arch import zoo
from manyheads.arch.families import nearest_neighbor
from manyheads.spec.datasets import CLOUDS, Cloud
from manyheads.spec.errors import UserError
from manyheads.spec.points import NearestNeighbor
from manyheads.tasks import check, from_dict, open_task, to_dict
from manyheads.tasks.drawn import ROWS, DrawnWork
from manyheads.tasks.points import Neighbors, linear

CPU = torch.device("cpu")


def drawn(task: NearestNeighbor, rows: int = 300) -> tuple[Tensor, Tensor]:
    """Tokens and answers."""
    return Neighbors(task).draw(Generator().manual_seed(1), rows)


def opened(seed: int = 0, batch: int = 24, **fields: object) -> DrawnWork:
    """Work on a small task."""
    return open_task(NearestNeighbor(**({"dim": 6, "tokens": 5, "held": 600} | fields)), CPU, seed, batch)  # type: ignore[arg-type]


class Answers(nn.Module):
    """Knows the answer: the farthest point for every point, by distances, plus noise."""

    def __init__(self, noise: float = 0.0) -> None:
        super().__init__()
        self.noise = noise

    def forward(self, points: Tensor) -> Tensor:
        found = points.take_along_dim(torch.cdist(points, points).argmax(-1)[..., None], dim=1)
        return found + self.noise / points.shape[-1] ** 0.5


# ------------------------------------------------------------------------------------------------------------- answers
def test_every_point_asks_for_the_farthest_of_the_others() -> None:
    points, answers = drawn(NearestNeighbor(6, 5))
    assert torch.allclose(points.norm(dim=-1), torch.ones(300, 5))
    assert torch.equal(Answers()(points), answers)


@pytest.mark.parametrize("points", CLOUDS)
def test_a_separate_query_asks_for_the_nearest_point(points: Cloud) -> None:
    tokens, answers = drawn(NearestNeighbor(6, 4, "separate", points))
    x, y = tokens[:, :4], tokens[:, 4:]
    assert answers.shape == (300, 1, 6)
    assert torch.equal(x.take_along_dim(torch.cdist(y, x).argmin(-1)[..., None], dim=1), answers)
    gram = x @ x.mT
    if points == "orthogonal":
        assert torch.allclose(gram, torch.eye(4).expand_as(gram), atol=1e-5)
    elif points == "doubled":
        assert torch.equal(x[:, :2], -x[:, 2:])
    else:
        assert gram.abs().amax() < 1.001
        assert gram[:, 0, 1].std() == pytest.approx(6**-0.5, rel=0.15)  # independent on the sphere


def test_as_many_orthogonal_points_as_dimensions_are_a_rotation() -> None:
    tokens, _ = drawn(NearestNeighbor(32, 32, "separate", "orthogonal"), 50)
    gram = tokens[:, :32] @ tokens[:, :32].mT
    assert (gram - torch.eye(32)).abs().max() < 1e-4


@pytest.mark.parametrize("count", [1, 7, 73])
def test_the_biased_target_is_the_alternating_sum_that_it_is_said_to_be(count: int) -> None:
    task = NearestNeighbor(6, 4, "separate", "orthogonal", biases=count)
    tokens, answers = drawn(task)
    x, y = tokens[:, :4].double(), tokens[:, 4].double()
    assert y.norm(dim=-1).std() > 0.3  # normal, not on the sphere
    scores = (x @ y[..., None]).squeeze(-1)
    total = torch.zeros_like(answers)
    for number, bias in enumerate(torch.linspace(-3, 3, count).double() * 2**0.5):
        raised = scores + bias * torch.tensor([1.0, 0, 0, 0])
        total += (-1) ** number * x.take_along_dim(raised.argmax(-1)[:, None, None], dim=1).float()
    assert torch.allclose(total, answers, atol=1e-6)


# ---------------------------------------------------------------------------------------------------------------- data
@pytest.mark.parametrize("replay", [0, 3])
def test_a_batch_is_the_same_for_any_ranks_accumulation_and_resume(replay: int) -> None:
    work = opened(replay=replay)
    for step in (0, 1, 63, 64, 200):
        whole, again = work.batch(step, range(24)), opened(replay=replay)
        for size in (1, 8, 12):
            parts = [again.batch(step, range(start, start + size)) for start in range(0, 24, size)]
            for mine, theirs in zip(whole, zip(*parts, strict=True), strict=True):
                assert torch.equal(mine, torch.cat(theirs))


def test_no_sample_comes_twice_unless_it_is_asked_for() -> None:
    fresh = torch.cat([opened().batch(step, range(24))[0] for step in range(70)])
    assert len(fresh.unique(dim=0)) == 70 * 24
    replayed = opened(replay=3)
    assert (opened().samples, replayed.samples) == (None, 72)
    for step in range(3):
        assert torch.equal(replayed.batch(step, range(24))[0], replayed.batch(step + 300, range(24))[0])
        assert torch.equal(replayed.batch(step, range(24))[0], opened().batch(step, range(24))[0])
    assert not torch.equal(opened(seed=1).batch(0, range(24))[0], opened(seed=0).batch(0, range(24))[0])


def test_what_is_held_out_is_the_same_for_every_seed_and_is_not_trained_on() -> None:
    first, second = opened(seed=0), opened(seed=1, batch=8)
    assert torch.equal(first.probe_batch(10), second.probe_batch(10))
    assert first.probe_batch(ROWS + 5).shape == (ROWS + 5, 5, 6)
    trained = first.batch(0, range(24))[0]
    assert not (trained[:, None] == first.probe_batch(24)[None]).all(dim=(2, 3)).any()


# -------------------------------------------------------------------------------------------------------------- scores
def test_scores_are_exact() -> None:
    work = opened()
    perfect = work.score(work.tally(Answers()))
    assert perfect["loss"] == pytest.approx(0, abs=1e-10)
    assert (perfect["accuracy"], perfect["skill"]) == (1.0, pytest.approx(1.0))
    noisy = work.score(work.tally(Answers(0.5)))
    assert noisy["loss"] == pytest.approx(0.25, rel=1e-5)
    assert noisy["seen"] == pytest.approx(0.25, rel=1e-5)
    assert noisy["skill"] == pytest.approx(1 - 0.25 / linear(work.task))  # type: ignore[arg-type]
    loss = work.loss(Answers(0.5), *work.batch(0, range(24)))
    assert loss.item() == pytest.approx(0.25, rel=1e-5)


@pytest.mark.parametrize("parts", [2, 3])
def test_shares_add_up_and_call_the_model_equally_often(parts: int) -> None:
    work, calls = opened(), []
    model = Answers(0.3)
    model.register_forward_hook(lambda *_: calls.append(1))
    whole = work.tally(model)
    counts, sums = [], dict.fromkeys(whole, 0.0)
    for part in range(parts):
        calls.clear()
        for name, value in work.tally(model, (part, parts)).items():
            sums[name] += value.item()
        counts.append(len(calls))
    assert sums == pytest.approx({name: value.item() for name, value in whole.items()})
    assert (sums["rows"], len(set(counts))) == (600, 1)


def test_zeros_score_one_and_the_linear_baseline_is_the_known_one() -> None:
    """Values found for these sizes before this code was written."""
    known = {(16, 8): 0.765, (64, 4): 0.659, (64, 16): 0.891, (64, 64): 0.903, (32, 16): 0.850}
    for (dim, tokens), loss in known.items():
        assert linear(NearestNeighbor(dim, tokens)) == pytest.approx(loss, abs=0.004)

    class Zeros(nn.Module):
        def forward(self, points: Tensor) -> Tensor:
            return torch.zeros_like(points)

    work = opened()
    assert work.score(work.tally(Zeros()))["loss"] == pytest.approx(work.trivial()["loss"])


def test_a_separate_query_is_judged_at_its_own_token_alone() -> None:
    class Query(nn.Module):
        def forward(self, tokens: Tensor) -> Tensor:
            x, y = tokens[:, :-1], tokens[:, -1:]
            found = x.take_along_dim((y @ x.mT).argmax(-1)[..., None], dim=1)
            return torch.cat((torch.full_like(x, 1e3), found), dim=1)

    work = opened(query="separate", points="orthogonal")
    assert work.per_sample == 6
    scores = work.score(work.tally(Query()))
    assert scores["loss"] == pytest.approx(0, abs=1e-10)
    assert scores["accuracy"] == 1


# ------------------------------------------------------------------------------------------------------------ mistakes
def test_the_task_survives_json() -> None:
    task = NearestNeighbor(8, 4, "separate", "orthogonal", 9, 100, 512)
    assert from_dict(json.loads(json.dumps(to_dict(task)))) == task


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"query": "both"}, "write one of 'self', 'separate'"),
        ({"points": "cube"}, "'sphere', 'orthogonal', 'doubled'"),
        ({"dim": 4, "points": "orthogonal"}, "16 orthogonal points of R\\^4; write tokens=4"),
        ({"tokens": 5, "points": "doubled", "query": "separate"}, "an even number"),
        ({"points": "doubled"}, "always the opposite"),
        ({"tokens": 1}, "NearestNeighbor.tokens is 1"),
        ({"biases": 4, "query": "separate"}, "write an odd number"),
        ({"biases": 5}, "query='separate'"),
    ],
)
def test_mistakes_are_told(fields: dict[str, object], told: str) -> None:
    with pytest.raises(UserError, match=told):
        NearestNeighbor(**fields)  # type: ignore[arg-type]


def test_a_model_that_does_not_fit_is_refused() -> None:
    check(NearestNeighbor(8, 4), nearest_neighbor(8, head_dim=8, tokens=4))
    check(NearestNeighbor(8, 4, "separate"), nearest_neighbor(8, head_dim=8, tokens=5, positions="concat"))
    with pytest.raises(UserError, match="gives 5 tokens of 8 coordinates"):
        check(NearestNeighbor(8, 4, "separate"), nearest_neighbor(8, head_dim=8, tokens=4))
    with pytest.raises(UserError, match="gpt2 model reads Token input"):
        check(NearestNeighbor(8, 4), zoo.get("gpt2"))
