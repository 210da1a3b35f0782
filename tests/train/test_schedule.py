"""Learning rates by their formulas, and beside PyTorch's where it has the schedule."""

from __future__ import annotations

import math

import pytest
import torch

from manyheads.spec.schedule import Schedule, beta1, factor

PLACES = [i / 40 for i in range(41)]


def test_cosine_with_warm_up() -> None:
    schedule = Schedule("cosine", warmup=0.2, start=0.1, end=0.05)
    for t in PLACES:
        rising = 0.1 + 0.9 * t / 0.2
        falling = 0.05 + 0.95 * (1 + math.cos(math.pi * (t - 0.2) / 0.8)) / 2
        assert factor(schedule, t) == pytest.approx(rising if t < 0.2 else falling)


def test_crammed_berts_wall_clock_triangle() -> None:
    schedule = Schedule("triangle", warmup=0.75, start=0.25)
    for t in PLACES:
        assert factor(schedule, t) == pytest.approx(min(0.25 + t, 4 * (1 - t)))


def test_constant_and_linear() -> None:
    assert {factor(Schedule("constant"), t) for t in PLACES} == {1.0}
    for t in PLACES:
        assert factor(Schedule("linear"), t) == pytest.approx(1 - t)


@pytest.mark.parametrize(("kind", "strategy"), [("one_cycle", "cos"), ("linear", "linear")])
def test_one_cycle_beside_pytorchs(kind: str, strategy: str) -> None:
    """PyTorch's takes whole steps: its peak is at step pct x total - 1, its end at total - 1."""
    total, peak = 41, 12
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([weight], lr=2.0, betas=(0.9, 0.98))
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 2.0, total_steps=total, pct_start=(peak + 1) / total, anneal_strategy=strategy
    )
    ours = Schedule(kind, warmup=peak / (total - 1), start=1 / 25, end=1 / 25e4, beta1=(0.95, 0.85))  # type: ignore[arg-type]
    for step in range(total):
        assert 2.0 * factor(ours, step / (total - 1)) == pytest.approx(theirs.get_last_lr()[0], rel=1e-6)
        assert beta1(ours, step / (total - 1)) == pytest.approx(optimizer.param_groups[0]["betas"][0], rel=1e-6)
        optimizer.step()
        if step + 1 < total:
            theirs.step()


def test_the_first_beta_stays_where_it_is_unless_asked() -> None:
    assert beta1(Schedule("one_cycle", 0.3), 0.1) is None


def test_progress_outside_the_budget_is_its_ends() -> None:
    schedule = Schedule("cosine", warmup=0.1, start=0.5, end=0.2)
    assert factor(schedule, -1.0) == 0.5
    assert factor(schedule, 2.0) == pytest.approx(0.2)
    assert factor(Schedule("linear", warmup=1.0), 1.0) == 1.0
