"""JSON that cannot be walked or computed with is refused where it is read; what is usual is read as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from manyheads.spec.errors import UserError
from manyheads.spec.files import read_object
from manyheads.spec.json_text import DEEPEST, parse
from manyheads.spec.serialise import read_json


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"seed": ' + "7" * 5000 + "}", "a whole number of 5,000 digits"),
        ('{"seed": 1' + "0" * 400 + "}", "a whole number of 401 digits"),
        ('{"lr": 1e400}', "the number 1e400"),
        ('{"lr": NaN}', "NaN is not a JSON number"),
        ('{"a":' * 900 + "1" + "}" * 900, "nested more than 100 deep"),
        ("[" * 100_000 + "]" * 100_000, "nested more than 100 deep"),
        ("{no", "Expecting property name"),
    ],
)
def test_what_no_record_can_hold_is_refused_with_the_reason(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=says):
        parse(text)
    (tmp_path / "spec.json").write_text(text)
    with pytest.raises(UserError, match=says):
        read_object(tmp_path / "spec.json")


def test_the_deepest_value_is_read_and_one_deeper_is_not() -> None:
    deepest: object = 1
    for _ in range(DEEPEST):
        deepest = [deepest]
    assert parse(json.dumps(deepest)) == deepest
    with pytest.raises(ValueError, match="nested"):
        parse(json.dumps([deepest]))
    assert parse(json.dumps([[]] * 3 * DEEPEST)) == [[]] * 3 * DEEPEST


def test_values_are_those_of_the_standard_library(tmp_path: Path) -> None:
    text = '{"a": [1, -2, 3.5, 1e300, "ä", null, true], "b": {"c": 9223372036854775808}}'
    assert parse(text) == parse(text.encode()) == json.loads(text)
    (tmp_path / "config.json").write_text('{"time_step_limit": [0.0, Infinity]}')
    assert read_json(tmp_path / "config.json") == {"time_step_limit": [0.0, float("inf")]}
