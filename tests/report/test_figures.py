"""Figures: the axis is what the arms differ in, the paper's values are drawn in, and files hold the same as the
page."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from manyheads.arch.families import vit
from manyheads.arch.redesign import redesign
from manyheads.experiments.demo import DEMO
from manyheads.experiments.registry import EXPERIMENTS
from manyheads.report.arms_grid import arms_grid
from manyheads.report.chart import Axis, log_ticks, ticks
from manyheads.report.figures import figures
from manyheads.report.page import write
from manyheads.report.page_files import drawable
from manyheads.report.read_runs import Section, read_runs
from manyheads.report.section_html import figure_name
from manyheads.spec.experiment import Arm, Comparison, Experiment

from .made import quick

BASE = vit(24, 4, 2, 12, 48, image=8, patch=4, channels=1, classes=10)


def grid(**printed: float) -> Experiment:
    """Heads against depth, as the first paper's Figure 3 has it."""
    arms = tuple(
        Arm(f"L{depth}_h{heads}", redesign(BASE, depth=depth, heads=heads))
        for depth in (4, 2)
        for heads in (1, 2, 4, 8)
    )
    setting = replace(DEMO.setting("smoke"), arms=arms, seeds=(0, 1, 2))
    return Experiment(
        "grid",
        "Heads and depth",
        "Which?",
        {"small": setting, "paper": setting},
        (Comparison("L2_h8", "L4_h2", "more", claim="L6"),),
        printed,
    )


def made(root: Path, experiment: Experiment, top1: float = 0.5) -> Section:
    """The section of an experiment whose accuracy grows with its heads."""
    quick(root, experiment, "small", lambda spec: top1 + 0.01 * spec.seed + 0.02 * _heads(spec.label["arm"]))
    return read_runs(root, {experiment.name: experiment}).sections[0]


def _heads(name: str) -> int:
    return int(name.rpartition("h")[2])


def test_the_axis_is_what_has_the_most_values_and_the_rest_names_the_lines(tmp_path: Path) -> None:
    found = arms_grid(made(tmp_path, grid()).arms)
    assert found is not None
    assert (found.x, found.names) == ("heads", ["depth 4", "depth 2"])
    assert found.places["L2_h8"] == 8


@pytest.mark.parametrize(
    ("name", "scale", "x", "lines"),
    [
        (
            "rank_fig1",
            "small",
            "head_dim",
            [f"depth {depth}, inner {inner}" for depth in (1, 3) for inner in (64, 512)],
        ),
        ("rank_axes", "small", "head_dim", ["inner 64", "inner 128", "inner 256"]),
        ("demo", "smoke", None, []),
    ],
)
def test_it_is_found_in_experiments_that_say_nothing_of_it(
    tmp_path: Path, name: str, scale: str, x: str | None, lines: list[str]
) -> None:
    quick(tmp_path, EXPERIMENTS[name], scale, lambda spec: 0.5)
    found = arms_grid(read_runs(tmp_path, EXPERIMENTS).sections[0].arms)
    assert (found.x if found else None) == x
    assert (found.names if found else []) == lines


def test_the_papers_values_are_hollow_marks_beside_ours(tmp_path: Path) -> None:
    figure = figures(made(tmp_path, grid(L4_h2=0.55, L2_h8=0.6)))[0]
    assert figure.chart.title == "top1 over heads"
    assert {(dot.x, dot.y) for dot in figure.chart.dots if dot.hollow} == {(2, 0.55), (8, 0.6)}
    ours = {(dot.x, round(dot.y, 6)) for dot in figure.chart.dots if not dot.hollow and dot.colour == 1}
    assert ours == {(1, 0.53), (2, 0.55), (4, 0.59), (8, 0.67)}
    assert "Hollow" in figure.caption


def test_what_the_paper_printed_for_larger_designs_is_not_drawn_at_the_size_of_ours(tmp_path: Path) -> None:
    experiment = grid(L4_h2=0.55, L2_h8=0.6)
    larger = tuple(replace(arm, arch=redesign(arm.arch, mlp_dim=96)) for arm in experiment.setting("small").arms)
    settings = dict(experiment.settings) | {"paper": replace(experiment.setting("small"), arms=larger)}
    found = {figure.chart.title: figure for figure in figures(made(tmp_path, replace(experiment, settings=settings)))}
    assert sum(dot.hollow for dot in found["top1 over heads"].chart.dots) == 2  # of as many heads
    assert not any(dot.hollow for dot in found["top1 against parameters"].chart.dots)
    assert (
        "The paper printed 55.0 % to 60.0 %, for designs of another size." in found["top1 against parameters"].caption
    )


def test_names_are_written_beside_marks_only_where_none_would_cover_another(tmp_path: Path) -> None:
    setting = grid().setting("small")
    apart = [arm for arm in setting.arms if arm.name in ("L4_h1", "L4_h2", "L2_h4")]
    above = [*apart, replace(apart[0], name="again", recipe={"lr": 1.0})]
    for arms, labels in ((apart, {"L4_h1", "L4_h2", "L2_h4"}), (above, {""})):
        experiment = replace(grid(), settings={"small": replace(setting, arms=tuple(arms))}, comparisons=())
        root = tmp_path / str(len(arms))
        quick(root, experiment, "small", lambda spec: 0.5)
        found = {figure.chart.title: figure for figure in figures(read_runs(root, {"grid": experiment}).sections[0])}
        dots = found["top1 against parameters"].chart.dots
        assert {dot.label for dot in dots if not dot.faint} == labels


def test_figures_of_several_kinds_of_attention_have_names_of_their_own(tmp_path: Path) -> None:
    """Files are named after them: one name for two would leave one file."""
    section = made(tmp_path, grid())
    for run in section.runs:
        text = (run.path / "spectra.jsonl").read_text().replace('"head_correlation": null', '"head_correlation": 0.25')
        (run.path / "spectra.jsonl").write_text(text + text.replace("softmax", "window"))
    found = figures(read_runs(tmp_path, {"grid": grid()}).sections[0])
    titles = [figure.chart.title for figure in found]
    assert {"head correlation, softmax over steps", "head correlation, window over steps"} <= set(titles)
    assert len({figure_name(figure, section) for figure in found}) == len(found)


def test_values_of_another_setting_are_told_and_have_a_figure_of_their_own(tmp_path: Path) -> None:
    found = figures(made(tmp_path, grid(L4_h2=0.05, L2_h8=0.06, L2_h1=0.04, L2_h2=0.05), top1=0.7))
    first, last = found[0], found[-1]
    assert not any(dot.hollow for dot in first.chart.dots)
    assert "The paper printed 4.0 % to 6.0 %, in another setting; these values are off this scale" in first.caption
    assert last.chart.title == "top1, as the paper printed it"
    assert "Nothing in this figure was measured here" in last.caption
    assert {round(dot.y, 6) for dot in last.chart.dots if dot.hollow} == {0.04, 0.05, 0.06}


def test_every_figure_and_table_is_a_file_with_the_same_numbers(tmp_path: Path) -> None:
    experiment = grid(L4_h2=0.55)
    section = made(tmp_path / "runs", experiment)
    write(tmp_path / "runs", tmp_path / "page.html", experiments={"grid": experiment}, assets=tmp_path / "assets")
    files = {file.name for file in (tmp_path / "assets").iterdir()}
    for stem in ("grid_small_top1_over_heads", "grid_small_kappa_over_steps", "grid_small_top1_against_parameters"):
        assert {f"{stem}.svg", f"{stem}.csv"} <= files
        assert (f"{stem}.png" in files) is drawable()
    assert {"Claims.csv", "Claims_without_runs.csv", "grid_small_arms.csv", "grid_small_runs.csv"} <= files
    with (tmp_path / "assets" / "grid_small_arms.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["top1"]) == pytest.approx(0.53)
    assert float(rows[0]["top1 spread"]) == pytest.approx(0.01)
    assert rows[0]["arm"] == "L4_h1"
    assert len(rows) == len(section.arms)
    with (tmp_path / "assets" / "grid_small_top1_over_heads.csv").open(newline="") as file:
        numbers = list(csv.DictReader(file))
    assert {"series": "depth 4", "kind": "printed", "heads": "2.0", "top1": "0.55", "error": ""} in numbers
    for file in (tmp_path / "assets").glob("*.svg"):
        text = file.read_text()
        ElementTree.fromstring(text)
        assert "var(" not in text


def test_axes_hold_all_values_and_their_ticks_are_round() -> None:
    axis = Axis.over([1.0, 64.0], log=True)
    assert [axis.share(value) for value in (1, 8, 64)] == pytest.approx([0, 0.5, 1])
    assert Axis.over([0.0, 5.0], log=True).log is False
    assert Axis.over([3.0]).share(3.0) == 0.5
    assert ticks(0.0, 1.0) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert Axis.over([15.0, 30.0]).ticks(whole=True) == [15, 20, 25, 30]  # and no step 17.5
    assert Axis.over([0.0, 1.0]).ticks(whole=True) == [0, 1]
    assert log_ticks(1.0, 100.0) == [1, 2, 5, 10, 20, 50, 100]
    assert all(math.isfinite(value) for value in log_ticks(1e-3, 1e9))
