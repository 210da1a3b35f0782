"""One run folder that cannot be right is listed as such, or reported, and the page about the others is written."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manyheads.cli.report import report
from manyheads.experiments.demo import DEMO
from manyheads.report.page import write
from manyheads.runs import Run
from manyheads.spec.lock import holder
from manyheads.spec.run import digest

from .made import comparison

SETTING = replace(DEMO.setting("smoke"), arms=DEMO.setting("smoke").arms[:2], seeds=(0, 1))
FILES = ("spec.json", "status.json", "result.json", "metrics.jsonl", "spectra.jsonl")
# fmt: off
WRONG = (
    10**400, -10**299, 10**18, 2**63, -1, 0, 1e300, 1e-300, 1.5, True, None, "x", "", "up", "a" * 3000, "\ud800", "\x00<b>",
    [], {}, [[]], [None], {"a": {}}, {"a": 10**400}, ["up", "up"],
)
# fmt: on


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arms with two seeds."""
    root = tmp_path_factory.mktemp("runs")
    experiment = replace(DEMO, settings={"small": SETTING}, comparisons=())
    comparison(root, experiment, "small", {"original": [0.85, 0.86], "lean": [0.85, 0.84]})
    return root


@pytest.fixture
def root(runs: Path, tmp_path: Path) -> Path:
    """A copy of them to damage."""
    return Path(shutil.copytree(runs, tmp_path / "runs"))


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where in a JSON value another value may be put."""
    yield here
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inside:
        yield from places(item, (*here, name))


def put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """The JSON value with `new` at a place."""
    if not place:
        return new
    changed = copy.copy(value)
    changed[place[0]] = put(value[place[0]], place[1:], new)
    return changed


def damage(run: Path, file: str, place: tuple[Any, ...], new: Any) -> None:
    """Put another value into a file of a run, into its last line where it has several. The id is that of the new
    specification, as somebody writes it who wants it to be read."""
    lines = (run / file).read_text().splitlines() if file.endswith("l") else [(run / file).read_text()]
    value = put(json.loads(lines[-1]), place, new)
    if file == "spec.json" and isinstance(value, dict) and place != ("id",):
        try:
            value["id"] = digest(value)
        except (ValueError, OverflowError):  # it has none
            return
        result = json.loads((run / "result.json").read_text())
        (run / "result.json").write_text(json.dumps(result | {"id": value["id"]}))
    (run / file).write_text("\n".join([*lines[:-1], json.dumps(value)]) + "\n")


def written(root: Path, page: Path) -> tuple[int, int]:
    """How many folders of a page are reported, and how many are listed as damaged."""
    reported = write(root, page)
    assert page.read_text(encoding="utf-8").endswith("</html>\n")
    return sum(len(section.runs) for section in reported.sections), len(reported.problems)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_single_value_ends_the_report(
    runs: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = Path(shutil.copytree(runs, tmp_path_factory.mktemp("damaged") / "runs"))
    run = data.draw(st.sampled_from(sorted(root.glob("*/*"))))
    file = data.draw(st.sampled_from(FILES))
    lines = (run / file).read_text().splitlines() if file.endswith("l") else [(run / file).read_text()]
    place = data.draw(st.sampled_from(sorted(places(json.loads(lines[-1])), key=str)))
    damage(run, file, place, data.draw(st.sampled_from(WRONG)))
    good, bad = written(root, root.parent / "page.html")
    assert (good, bad) in ((4, 0), (3, 1))
    shutil.rmtree(root.parent)


@pytest.mark.parametrize(
    ("file", "place", "new"),
    [
        ("spec.json", ("seed",), 10**400),
        ("spec.json", ("seed",), 2**64),
        ("spec.json", ("recipe", "ema"), 10**400),
        ("spec.json", ("label", "scale"), "\ud800"),
        ("result.json", ("result", "better", 0), "\ud800"),
        ("result.json", ("result", "timing", "seconds"), 10**400),
        ("metrics.jsonl", ("top1",), 10**400),
    ],
)
def test_a_run_that_cannot_be_right_is_listed_and_the_others_are_reported(
    root: Path, file: str, place: tuple[Any, ...], new: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run = sorted(root.glob("*/*"))[0]
    damage(run, file, place, new)
    assert written(root, root.parent / "page.html") == (3, 1)
    report(root, out=root.parent / "page.html")
    told = capsys.readouterr().out
    assert "1 folder cannot be read" in told
    assert run.name in told


def test_a_prediction_beyond_all_numbers_is_drawn_at_the_edge(root: Path) -> None:
    for run in root.glob("*/*"):
        lines = [json.loads(line) | {"gaussian_log_kappa": 1e100} for line in (run / "spectra.jsonl").open()]
        (run / "spectra.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert written(root, root.parent / "page.html") == (4, 0)


def test_a_folder_whose_name_is_no_text_is_listed(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = sorted(root.glob("*/*"))[0]
    first.rename(first.parent / "lean\udcff")
    assert written(root, root.parent / "page.html") == (3, 1)
    report(root, out=root.parent / "page.html")
    assert r"lean\udcff is a name that is not UTF-8" in capsys.readouterr().out


def test_a_lock_that_names_no_process_has_another_process(root: Path) -> None:
    run = Run.open(sorted(root.glob("*/*"))[0])
    (run.path / "lock").write_text('{"pid": 1e999, "host": "x"}')
    assert holder(run.path / "lock") == "another process"
