"""A specification is its content: the id is the hash of it, and a wrong one is refused with a sentence."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.arch import zoo
from manyheads.runs import RunSpec
from manyheads.spec import files
from manyheads.spec.errors import UserError
from tests.runs.examples import spec

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values, max_size=4))
def test_any_json_object_survives_the_file_with_its_id(recipe: dict) -> None:
    one = replace(spec(), recipe=recipe)
    again = RunSpec.from_dict(json.loads(files.dump({"id": one.id} | one.to_dict())))
    assert again == one
    assert again.id == one.id


def test_the_id_does_not_depend_on_order_label_or_spelling_of_numbers() -> None:
    one = RunSpec(zoo.get("vit_s"), {"a": 1, "b": [1.0, 2]}, {"lr": 1}, 3, {"arm": "lean"})
    two = RunSpec(zoo.get("vit_s"), {"b": (1, 2.0), "a": 1.0}, {"lr": 1.0}, 3, {"arm": "original"})
    assert one.id == two.id
    assert len(one.id) == 16


def test_the_id_is_pinned() -> None:
    """A change of the hash would make every run folder in the world another run."""
    assert spec().id == "9d6de9a10637c2e3"


@pytest.mark.parametrize("change", [{"seed": 1}, {"recipe": {"lr": 2e-3}}, {"task": {}}, {"arch": zoo.get("vit_b")}])
def test_the_id_depends_on_everything_else(change: dict) -> None:
    assert replace(spec(), **change).id != spec().id


def test_a_specification_is_not_changed_through_the_object_it_was_made_from() -> None:
    recipe = {"lr": 1e-3, "betas": [0.9, 0.99]}
    one = replace(spec(), recipe=recipe)
    before = one.id
    recipe["betas"][0] = 0.5
    assert one.id == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": -1}, "seed -1"),
        ({"seed": True}, "seed True"),
        ({"seed": 1.0}, "seed 1.0"),
        ({"recipe": {"lr": math.nan}}, "recipe.lr is nan"),
        ({"recipe": {"steps": [1, math.inf]}}, r"recipe.steps\[1\] is inf"),
        ({"task": {"size": {1, 2}}}, "task.size is a set"),
        ({"task": {"names": {0: "shirt"}}}, "task.names has the key 0"),
        ({"task": [1]}, "task is a list"),
        ({"arch": {"family": "vit"}}, "arch is a dict"),
    ],
)
def test_what_is_not_json_is_refused_by_name(change: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        replace(spec(), **change)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 99}, "schema 99.*newer manyheads"),
        ({"schema": True}, "schema True"),
        ({"schema": "1"}, "schema '1'"),
        ({"recipes": {}}, "no field 'recipes'; did you mean recipe"),
        ({"seed": None}, "seed None"),
        ({"id": "0123456789abcdef"}, "changed after it was written"),
        ({"arch": {"family": "vit"}}, "write a list of Stage"),
        ({"arch": "vit_b"}, "not an architecture record"),
    ],
)
def test_a_wrong_file_is_refused_by_field(change: dict, words: str) -> None:
    with pytest.raises(UserError, match=words):
        RunSpec.from_dict(spec().to_dict() | change)


@pytest.mark.parametrize("data", [None, [], "x", {}, {"schema": 1}])
def test_what_is_no_specification_is_refused(data: object) -> None:
    with pytest.raises(UserError, match="not the specification"):
        RunSpec.from_dict(data)


def test_missing_fields_are_named() -> None:
    with pytest.raises(UserError, match="lacks task, seed"):
        RunSpec.from_dict({name: item for name, item in spec().to_dict().items() if name not in ("task", "seed")})
