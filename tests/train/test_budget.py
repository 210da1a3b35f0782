"""From a basis to steps, and what is due when."""

from __future__ import annotations

from itertools import pairwise

import pytest

from manyheads.arch.count import forward_flops
from manyheads.spec.errors import UserError
from manyheads.spec.recipe import Basis, Recipe
from manyheads.train.budget import TrainingBudget, budget
from tests.train.tiny import ARCH


def spend(
    kind: str, amount: float, unit: str = "images", per_sample: int = 1, samples: int | None = 1000
) -> TrainingBudget:
    """The budget of a basis at a batch of 10."""
    recipe = Recipe(batch=10, basis=Basis(kind, amount))  # type: ignore[arg-type]
    return budget(recipe, ARCH, unit=unit, per_sample=per_sample, samples=samples)


def test_each_basis_becomes_its_number_of_steps() -> None:
    assert spend("steps", 7).steps == 7
    assert spend("samples", 1234).steps == 123
    assert spend("tokens", 6400, "tokens", 64).steps == 10
    assert spend("epochs", 2.5).steps == 250
    assert spend("flops", 3 * forward_flops(ARCH) * 10 * 42).steps == 42
    assert spend("samples", 1).steps == 1
    assert spend("seconds", 9.0) == TrainingBudget(None, 9.0)


def test_a_basis_that_the_task_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match="write samples"):
        spend("tokens", 100)
    with pytest.raises(UserError, match="never ends"):
        spend("epochs", 1, samples=None)


def test_a_cadence_in_steps_or_in_fractions_of_the_run() -> None:
    def due(every: float, total: int) -> list[int]:
        return [step for step in range(1, total + 1) if TrainingBudget(total).due(every, step, 0.0, 0.0)]

    assert due(4, 10) == [4, 8]
    assert due(0.1, 10) == list(range(1, 11))
    assert due(0.3, 10) == [3, 6, 9]
    assert due(1 / 3, 10) == [3, 6, 9]
    assert due(0, 10) == []
    assert due(0.01, 10) == list(range(1, 11))


def test_a_cadence_by_the_clock_misses_nothing_and_repeats_nothing() -> None:
    spent, times = TrainingBudget(None, 10.0), [0.0, 0.9, 2.1, 2.2, 2.3, 7.5, 9.9]
    due = [spent.due(0.2, 5, before, after) for before, after in pairwise(times)]
    assert due == [False, True, False, False, True, True]


def test_progress_is_spent_at_the_end_and_a_step_stands_at_its_middle() -> None:
    assert [TrainingBudget(4).spent(step, 0.0) for step in (3, 4)] == [False, True]
    assert [TrainingBudget(4).midpoint(step, 0.0) for step in range(4)] == [0.125, 0.375, 0.625, 0.875]
    assert TrainingBudget(None, 8.0).midpoint(3, 2.0) == 0.25
    assert TrainingBudget(None, 8.0).progress(3, 16.0) == 1.0
