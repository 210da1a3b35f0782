"""JSON lines: equal records are equal bytes, a torn line is no line, and a cut comes back to the byte."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.runs import JsonLines, Run
from manyheads.runs.json_lines import BLOCK
from manyheads.spec.errors import UserError
from manyheads.spec.files import line
from tests.runs.examples import spec


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", spec())


def test_records_come_back_and_gaps_are_null(run: Run) -> None:
    with run.locked():
        run.metrics.append({"step": 1, "loss": math.nan, "kappa": [1.5, math.inf, -math.inf], "to": {"x": math.nan}})
        run.metrics.append({"step": 2, "loss": 0.1})
    assert run.metrics.read() == [
        {"step": 1, "loss": None, "kappa": [1.5, None, None], "to": {"x": None}},
        {"step": 2, "loss": 0.1},
    ]
    text = run.metrics.path.read_text()
    assert not any(word in text for word in ("NaN", "Infinity", '"nan"', '"inf"'))


@given(st.dictionaries(st.text(), st.floats() | st.text() | st.integers(), max_size=5), st.randoms())
def test_equal_records_are_equal_bytes_in_any_order(record: dict, chance: random.Random) -> None:
    items = list(record.items())
    chance.shuffle(items)
    written = line(record, "x")
    assert written == line(dict(items), "x")
    assert written.count(b"\n") == 1  # whatever a text holds, a record is one line
    back = json.loads(written)
    assert all(back[name] == value for name, value in record.items() if not isinstance(value, float))
    assert all(
        back[name] == value if math.isfinite(value) else back[name] is None
        for name, value in record.items()
        if isinstance(value, float)
    )


@pytest.mark.parametrize("record", [[1], "x", None, {"loss": object()}, {1: 2}])
def test_what_is_no_record_is_refused_and_leaves_no_trace(run: Run, record: object) -> None:
    run.metrics.append({"step": 1})
    before = run.metrics.path.read_bytes()
    with pytest.raises(UserError, match=r"metrics\.jsonl"):
        run.metrics.append(record)  # type: ignore[arg-type]
    assert run.metrics.path.read_bytes() == before


def whole(lines: JsonLines) -> bytes:
    """A file of three lines, and its bytes."""
    for step in range(3):
        lines.append({"step": step, "name": "größe " * 3})
    return lines.path.read_bytes()


def test_a_line_torn_at_any_byte_is_neither_read_nor_continued(run: Run) -> None:
    data = whole(run.metrics)
    second = data.index(b"\n", data.index(b"\n") + 1) + 1
    for end in range(second, len(data)):
        run.metrics.path.write_bytes(data[:end])
        assert [record["step"] for record in run.metrics.read()] == [0, 1]
        assert run.metrics.size() == second
        run.metrics.append({"step": 7})
        assert [record["step"] for record in run.metrics.read()] == [0, 1, 7]


def test_a_torn_line_longer_than_a_block_is_cut_off(run: Run) -> None:
    run.metrics.append({"step": 0})
    with run.metrics.path.open("ab") as file:
        file.write(b'{"x": "' + b"y" * (3 * BLOCK))
    run.metrics.append({"step": 1})
    assert [record["step"] for record in run.metrics.read()] == [0, 1]
    run.metrics.path.write_bytes(b"z" * (2 * BLOCK))
    assert run.metrics.size() == 0
    assert run.metrics.read() == []


def test_a_cut_comes_back_to_the_byte_across_torn_lines(run: Run) -> None:
    with run.locked():
        run.spectra.append({"step": 1})
        run.spectra.flush()
        size, data = run.spectra.size(), run.spectra.path.read_bytes()
        run.spectra.append({"step": 2})
    with run.spectra.path.open("ab") as file:
        file.write(b'{"step": 3, "kap')
    with run.locked():
        run.spectra.cut(size)
        assert run.spectra.path.read_bytes() == data
        run.spectra.append({"step": 2})
        run.spectra.cut(0)
        assert run.spectra.read() == []
        run.spectra.append({"step": 9})
    assert run.spectra.read() == [{"step": 9}]


def test_a_cut_of_a_file_that_never_was_needs_none(run: Run) -> None:
    run.timings.cut(0)
    run.timings.flush()
    assert run.timings.size() == 0
    assert run.timings.read() == []
    assert not run.timings.path.exists()


@pytest.mark.parametrize("size", [5, 10_000, -1])
def test_a_cut_to_where_no_line_ended_is_refused(run: Run, size: int) -> None:
    data = whole(run.metrics)
    with pytest.raises(UserError, match=r"metrics\.jsonl is damaged"):
        run.metrics.cut(size)
    assert run.metrics.path.read_bytes() == data


@pytest.mark.parametrize("bad", [b"{", b"\0\0\0", b"[1]", b"3", b"", b'{"a": NaN}', b"\xff\xfe"])
def test_a_damaged_line_in_the_middle_is_named(run: Run, bad: bytes) -> None:
    run.metrics.path.write_bytes(b'{"step": 1}\n' + bad + b'\n{"step": 3}\n')
    with pytest.raises(UserError, match=r"metrics\.jsonl is damaged: line 2"):
        run.metrics.read()
