"""The table of arms: scores with what held-out samples leave open, and parameters with and without the embedding."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyheads.arch.count import params
from manyheads.experiments.registry import EXPERIMENTS
from manyheads.report.read_runs import Section, read_runs
from manyheads.report.section_html import arms_table
from manyheads.report.section_summary import table, terms
from manyheads.report.tables import csv_rows
from manyheads.spec.experiment import folder, specs

from .made import put, quick
from .test_page import FOUR


def section(root: Path, result: dict[str, Any], task: dict[str, Any]) -> Section:
    """One run of the demonstration with these fields in its result and in its task."""
    spec = specs(FOUR, "small")[0]
    spec = replace(spec, task=replace(spec.task, **task))
    path = folder(root, spec)
    put(path, spec, 0.8)
    written = json.loads((path / "result.json").read_text())
    written["result"] |= result
    (path / "result.json").write_text(json.dumps(written))
    return read_runs(root, {"demo": FOUR}).sections[0]


@pytest.mark.parametrize(
    ("result", "task", "error"),
    [
        ({"held_out": 400}, {}, math.sqrt(0.8 * 0.2 / 400)),
        ({"held_out": 400}, {"test_limit": 100}, math.sqrt(0.8 * 0.2 / 400)),
        ({}, {"test_limit": 100}, math.sqrt(0.8 * 0.2 / 100)),
        ({"better": ["accuracy", "up"], "score": {"accuracy": 0.7, "standard_error": 0.03}}, {}, 0.03),
        ({"better": ["accuracy", "up"], "score": {"accuracy": 0.7}, "held_out": 400}, {}, None),
        ({"better": ["loss", "down"], "score": {"loss": 0.7}, "held_out": 400}, {}, None),
        ({"held_out": True}, {}, None),
        ({"held_out": "many"}, {}, None),
        ({}, {}, None),
    ],
    ids=["stated", "stated_not_asked", "asked", "of_the_task", "several_answers", "a_loss", "true", "words", "none"],
)
def test_an_accuracy_has_its_binomial_error(
    tmp_path: Path, result: dict[str, Any], task: dict[str, Any], error: float | None
) -> None:
    found = section(tmp_path, result, task)
    row = table(found, full=True)[0]
    assert (row["binomial"].key if "binomial" in row else None) == (None if error is None else pytest.approx(error))
    assert "binomial" not in table(found)[0]  # a terminal has no room for it


def test_the_number_of_held_out_samples_is_among_the_terms(tmp_path: Path) -> None:
    assert "; held out: 12,345 samples; " in terms(section(tmp_path, {"held_out": 12_345}, {}))


def test_language_models_have_the_parameters_of_their_layers_beside_the_total(tmp_path: Path) -> None:
    quick(tmp_path, EXPERIMENTS["table2"], "smoke", lambda spec: 0.5)
    found = read_runs(tmp_path, EXPERIMENTS).sections[0]
    heads, *rows = csv_rows(arms_table(found))
    assert heads.index("non-embedding") == heads.index("parameters") + 1
    for arm, row in zip(found.arms, rows, strict=True):
        counted = params(arm.arch)
        told = [row[heads.index(name)] for name in ("parameters", "non-embedding")]
        assert told == [str(counted.total), str(counted.non_embedding)]
    assert "non-embedding" not in table(section(tmp_path / "images", {}, {}), full=True)[0]


def test_what_an_arm_is_comes_before_many_kinds_of_kappa(tmp_path: Path) -> None:
    """A page and a terminal show the shape of a model with several kinds of attention without scrolling."""
    found = section(tmp_path, {}, {})
    heads = list(table(found)[0])
    assert heads.index("kappa") < heads.index("seeds")
    path = found.runs[0].path / "spectra.jsonl"
    path.write_text(path.read_text() + path.read_text().replace("softmax", "window"))
    heads = list(table(read_runs(tmp_path, {"demo": FOUR}).sections[0])[0])
    assert heads[heads.index("seeds") + 1 :][:4] == [
        "kappa, softmax",
        "Gaussian, softmax",
        "kappa, window",
        "Gaussian, window",
    ]
