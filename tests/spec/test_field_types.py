"""A field of a wrong type or beyond every range is refused by its name, in every record of a task and of a recipe."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import hints
from manyheads.spec.generated import Grammar, Scene, Topics
from manyheads.spec.images import Augment, Rand
from manyheads.spec.recipe import Basis, Rates, Recipe
from manyheads.spec.run import RunSpec
from manyheads.spec.schedule import Schedule
from manyheads.spec.task_kinds import TASKS
from tests.runs.examples import spec

RECORDS: list[Any] = [kind for kind in TASKS.values() if kind.__module__.startswith("manyheads.")]
RECORDS += [Augment, Rand, Grammar, Scene, Topics, Recipe, Rates, Schedule]
DEFAULTS = {kind: kind() for kind in RECORDS} | {Basis: Basis("steps", 10)}
PLACES = [(kind, field.name) for kind in DEFAULTS for field in fields(kind)]
HUGE = 10**400
WRONG: list[Any] = [
    {"a": 1},
    [[1]],
    {1},
    object(),
    b"x",
    1j,
    HUGE,
    10**5000,
    -HUGE,
    float("nan"),
    float("inf"),
    (HUGE,),
]


@pytest.mark.parametrize(("kind", "name"), PLACES, ids=lambda part: getattr(part, "__name__", part))
def test_a_wrong_field_is_named(kind: Any, name: str) -> None:
    for value in WRONG:
        with pytest.raises(UserError) as caught:
            replace(DEFAULTS[kind], **{name: value})
        assert name in str(caught.value)
        assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "kind", [kind for kind in DEFAULTS if int in hints(kind).values()], ids=lambda kind: kind.__name__
)
def test_a_whole_number_has_a_largest_value(kind: Any) -> None:
    name = next(name for name, hint in hints(kind).items() if hint is int)
    with pytest.raises(UserError, match=rf"{name} is 1000000000000000.*(below 10\^15|from \d+ to)"):
        replace(DEFAULTS[kind], **{name: 10**15})


@pytest.mark.parametrize("value", [HUGE, 10**5000, 2**63, -1, "1", 1.5, None], ids=lambda value: type(value).__name__)
def test_a_seed_is_a_whole_number_that_generators_take(value: Any) -> None:
    with pytest.raises(UserError, match=r"seed .* write a whole number of at least 0 and below 2"):
        replace(spec(), seed=value)
    assert replace(spec(), seed=2**63 - 1).id


def test_a_number_of_an_architecture_has_a_largest_value() -> None:
    arch: Arch = spec().arch
    for value in (10**15, HUGE, 10**5000):
        with pytest.raises(UserError, match=r"stages\[0\].depth is .*; write a whole number below 10\^15"):
            replace(arch, stages=(replace(arch.stages[0], depth=value),))


def test_a_specification_written_by_hand_is_refused_by_its_field() -> None:
    data = spec().to_dict()
    for name in ("batch", "lr", "clip"):
        with pytest.raises(UserError, match=f"recipe.{name} is "):
            RunSpec.from_dict(data | {"recipe": data["recipe"] | {name: HUGE}})
