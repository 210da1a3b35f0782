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
from manyheads.spec.images import Images
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.run import digest
from tests.runs.examples import spec
from tests.specs import run_spec

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), values, max_size=4), st.floats(1e-9, 1e9), st.integers(1, 10**9))
def test_any_specification_survives_the_file_with_its_id(label: dict, lr: float, steps: int) -> None:
    one = replace(spec(), label=label, recipe=Recipe(lr=lr, basis=Basis("steps", steps)))
    again = RunSpec.from_dict(json.loads(files.dump({"id": one.id} | one.to_dict())))
    assert again == one
    assert again.id == one.id


def test_the_id_does_not_depend_on_order_label_or_spelling_of_numbers() -> None:
    augment = {"is": "Augment", "crop": 4, "mixup": 1}
    one = run_spec(zoo.get("vit_s"), {"is": "Images", "augment": augment}, {"lr": 1}, 3, {"arm": "lean"})
    again = dict(reversed((augment | {"mixup": 1.0}).items()))
    two = run_spec(zoo.get("vit_s"), {"augment": again, "is": "Images"}, {"lr": 1.0}, 3, {"arm": "original"})
    assert one.id == two.id
    assert len(one.id) == 16


def test_the_id_is_pinned() -> None:
    """A change of the hash would make every run folder in the world another run."""
    assert spec().id == "547d63eece7e3cd9"


def test_the_id_is_that_of_every_field_whether_it_was_stated_or_not() -> None:
    """A folder that states some fields alone keeps the id it was written with (`tests/runs/test_golden.py`)."""
    stated = spec().to_dict()
    brief = stated | {"recipe": {"lr": 1e-3, "batch": 64}, "task": {"is": "Images"}}
    assert digest(brief) == "22a67bd095e66763" != digest(stated)
    assert RunSpec.from_dict(brief) == RunSpec.from_dict(stated)
    assert RunSpec.from_dict(brief).id == digest(stated)


@pytest.mark.parametrize(
    "change", [{"seed": 1}, {"recipe": Recipe(lr=2e-3)}, {"task": Images("cifar10")}, {"arch": zoo.get("vit_b")}]
)
def test_the_id_depends_on_everything_else(change: dict) -> None:
    assert replace(spec(), **change).id != spec().id


def test_a_specification_is_not_changed_through_the_object_it_was_made_from() -> None:
    label = {"arm": "lean", "notes": ["first"]}
    one = replace(spec(), label=label)
    label["notes"][0] = "second"  # type: ignore[index]
    assert one.label == {"arm": "lean", "notes": ["first"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": -1}, "seed -1"),
        ({"seed": True}, "seed True"),
        ({"seed": 1.0}, "seed 1.0"),
        ({"label": {"lr": math.nan}}, "label.lr is nan"),
        ({"label": {"steps": [1, math.inf]}}, r"label.steps\[1\] is inf"),
        ({"label": {"size": {1, 2}}}, "label.size is a set"),
        ({"label": {"names": {0: "shirt"}}}, "label.names has the key 0"),
        ({"label": [1]}, "label is a list"),
        ({"task": {"is": "Images"}}, "task is a dict; write a Task"),
        ({"recipe": {"lr": 1}}, "recipe is a dict; write a Recipe"),
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


def test_starting_weights_are_part_of_the_id_and_random_ones_leave_no_trace() -> None:
    one = spec()
    tuned = replace(one, weights="ab" * 32)
    assert "weights" not in one.to_dict()
    assert one.starts_from is None
    assert tuned.starts_from == "ab" * 32
    assert len({one.id, tuned.id, replace(one, weights="cd" * 32).id}) == 3
    again = RunSpec.from_dict(json.loads(files.dump({"id": tuned.id} | tuned.to_dict())))
    assert (again, again.id, digest(tuned.to_dict())) == (tuned, tuned.id, tuned.id)


@pytest.mark.parametrize(
    ("task", "weights", "message"),
    [
        ({"is": "Images"}, "abc", "weights is 'abc'; write the sha256"),
        ({"is": "Footprint"}, "ab" * 32, "Footprint, which trains nothing; leave them out"),
        ({"is": "Glue"}, "ab" * 32, "write them in task.weights"),
    ],
)
def test_starting_weights_that_mean_nothing_are_refused(task: dict, weights: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        replace(run_spec(zoo.get("vit_s"), task, {}, 0), weights=weights)
