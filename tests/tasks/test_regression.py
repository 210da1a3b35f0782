"""In-context linear regression: answers follow from the examples, data by place, mistakes told."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Generator, Tensor, nn

from manyheads.arch.families import nearest_neighbor
from manyheads.spec.errors import UserError
from manyheads.tasks import Regression, check, from_dict, open_task, to_dict
from manyheads.tasks.points import Functions, best

CPU = torch.device("cpu")


class LeastSquares(nn.Module):
    """Solves each sample, as a perfect model would."""

    def __init__(self, examples: int) -> None:
        super().__init__()
        self.examples = examples

    def forward(self, tokens: Tensor) -> Tensor:
        x, y = tokens[..., :-1], tokens[:, : self.examples, -1:]
        w = torch.linalg.lstsq(x[:, : self.examples].double(), y.double()).solution
        return torch.cat((x, (x.double() @ w).float()), dim=-1)


def test_the_answers_follow_from_the_examples() -> None:
    work = open_task(Regression(dim=4, examples=6, held=300), CPU, 0, 32)
    scores = work.score(work.tally(LeastSquares(6)))
    assert scores["loss"] == pytest.approx(0, abs=1e-4)
    assert best(Regression(dim=4, examples=6)) == pytest.approx(0, abs=1e-6)
    tokens, answers = work.batch(0, range(32))
    assert tokens.shape == (32, 10, 5)
    assert answers.shape == (32, 4)
    assert (tokens[:, 6:, -1] == 0).all()
    assert not (tokens[:, :6, -1] == 0).any()


def test_zeros_score_one_and_too_few_or_noisy_examples_cost_what_they_must() -> None:
    _, answers = Functions(Regression(dim=4)).draw(Generator().manual_seed(0), 20_000)
    assert answers.square().mean().item() == pytest.approx(1, abs=0.03)
    assert best(Regression(dim=6, examples=3)) == pytest.approx(1 / 2, abs=0.03)  # half of w's directions are unknown
    assert 0.02 < best(Regression(dim=4, examples=12, noise=0.3)) < 0.09


def test_fresh_and_replayed_samples() -> None:
    fresh, replayed = open_task(Regression(), CPU, 3, 8), open_task(Regression(replay=2), CPU, 3, 8)
    assert torch.equal(fresh.batch(1, range(8))[0], replayed.batch(5, range(8))[0])
    assert not torch.equal(fresh.batch(1, range(8))[0], fresh.batch(5, range(8))[0])


def test_it_survives_json_and_refuses_models_that_do_not_fit() -> None:
    task = Regression(7, 20, 2, 0.1, 5, 64)
    assert from_dict(json.loads(json.dumps(to_dict(task)))) == task
    check(Regression(), nearest_neighbor(6, tokens=14, positions="concat"))
    with pytest.raises(UserError, match="positions 'none': write nearest_neighbor\\(dim=6, tokens=14"):
        check(Regression(), nearest_neighbor(6, head_dim=6, tokens=14))
    with pytest.raises(UserError, match="Regression\\.noise"):
        Regression(noise=-1)
