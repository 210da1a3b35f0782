"""The page: numbers that are the runs' own, verdicts that are earned, damage that is listed, and nothing from
outside."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from manyheads.experiments.demo import DEMO
from manyheads.experiments.registry import EXPERIMENTS
from manyheads.report.figures import figures
from manyheads.report.page import write
from manyheads.report.read_runs import read_runs
from manyheads.report.section_summary import conclusion, table
from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Experiment, specs
from tests.specs import changed, run_spec

from .made import comparison, finish, many, put, quick

TOP1 = {
    "original": [0.850, 0.854, 0.846, 0.851],
    "lean": [0.848, 0.853, 0.846, 0.849],
    "depth_only": [0.800, 0.805, 0.795, 0.801],
    "split": [0.849, 0.850, 0.847, 0.852],
}
FOUR = replace(
    DEMO, settings={"small": replace(DEMO.setting("smoke"), seeds=(0, 1, 2, 3)), "smoke": DEMO.setting("smoke")}
)
KNOWN = {"demo": FOUR}
VOID = {"meta", "br", "input", "path"}


class Reader(HTMLParser):
    """Checks that elements nest; keeps texts, links and addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One deeper."""
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in VOID or tag == "path":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """As deep as before."""

    def handle_endtag(self, tag: str) -> None:
        """One up."""
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Words, scripts and styles left out."""
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)


def read(page: Path) -> Reader:
    """The page, parsed."""
    reader = Reader()
    reader.feed(page.read_text())
    assert reader.open == []
    return reader


def made(tmp_path: Path, scale: str = "small", known: dict[str, Experiment] = KNOWN) -> tuple[Reader, str]:
    """The page about a comparison, and its text."""
    comparison(tmp_path / "runs", known["demo"], scale, TOP1)
    write(tmp_path / "runs", tmp_path / "page.html", experiments=known)
    reader = read(tmp_path / "page.html")
    return reader, " ".join(" ".join(reader.text).split())


def test_the_table_has_what_each_arm_reaches_costs_and_is(tmp_path: Path) -> None:
    comparison(tmp_path, FOUR, "small", TOP1)
    section = read_runs(tmp_path, KNOWN).sections[0]
    rows = {row["arm"].text: {head: cell.text for head, cell in row.items()} for row in table(section)}
    assert list(rows) == ["original", "lean", "depth_only", "split"]
    assert rows["lean"] == {
        "arm": "lean",
        "top1": "84.9 ± 0.3 %",
        "parameters": "155.3 k",
        "FLOPs": "5.56 M",
        "seconds": "12 s",
        "kappa": "55.4",
        "Gaussian": "2.72",
        "layers": "3",
        "heads": "8 x 16",
        "inner": "128",
        "seeds": "4",
        "loss": "0.5 ± 0",
    }
    assert rows["original"]["kappa"] == "410"


def test_with_enough_seeds_the_claims_are_decided_by_the_rule(tmp_path: Path) -> None:
    _, text = made(tmp_path)
    assert "lean against original: top1 -0.1 points" in text
    assert "lean against original: holds at scale small (L9" in text  # no worse than by the margin of one point
    assert "lean against depth_only: holds at scale small (M1" in text
    assert "kappa x0.135 (95 % interval x0.135 to x0.135, 4 seeds)" in text
    assert "M2 fixed and split differ at equal depth small: does not hold" in text
    assert "budget: 1,000 steps of batch 64; task: Images fashion_mnist; seeds: 0, 1, 2, 3" in text


def test_two_seeds_decide_nothing_and_the_page_says_so(tmp_path: Path) -> None:
    _, text = made(tmp_path, "smoke")
    page = (tmp_path / "page.html").read_text()
    assert not re.search('class="badge (yes|no|noise|open)"', page)
    assert (
        page.count('class="badge smoke"') == 12
    )  # of four claims, of their comparisons, and of those in their section
    assert "2 seeds per arm allow hardly any claim" in text
    assert "4 comparisons are about 4 of 27 claims. At scale smoke, which claims nothing: 4." in text
    assert "demo smoke: claims nothing" in text


def test_the_terminal_and_the_page_say_the_same(tmp_path: Path) -> None:
    _, text = made(tmp_path)
    for line in conclusion(read_runs(tmp_path / "runs", KNOWN).sections[0]):
        head, _, rest = line.partition(": ")
        assert head in text
        assert rest in text


def test_the_page_needs_nothing_from_outside_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    reader, _ = made(tmp_path)
    assert len([link for link in reader.links if not link.startswith("#")]) == 16
    for link in reader.links:
        assert link.startswith("#") or (tmp_path / link / "spec.json").is_file(), link
    page = (tmp_path / "page.html").read_text()
    assert not re.search(r"https?://|@import|url\(|<link|<img", page)
    assert "prefers-color-scheme:dark" in page


def test_machine_versions_seeds_and_command_are_there(tmp_path: Path) -> None:
    _, text = made(tmp_path)
    assert (
        "device a made-up <machine>, threads 1, torch 2.11 (16 runs)" in text
    )  # escaped on the page, whole to the reader
    assert "manyheads demo" in text
    assert f"manyheads report {tmp_path / 'runs'} --out {tmp_path / 'page.html'}" in text
    assert "split 3 done 85.2 % 12 s split-s3" in text


def test_damaged_and_foreign_folders_are_listed_and_break_nothing(tmp_path: Path) -> None:
    runs = comparison(tmp_path / "runs", FOUR, "small", TOP1)
    (runs[0].path / "result.json").write_text("{")
    (runs[1].path / "spec.json").write_text('{"schema": 99, "arch": {}}')
    (runs[2].path / "metrics.jsonl").write_text("not JSON\n")
    (runs[3].path / "spectra.jsonl").write_text('{"step": 1, "kind"')  # torn, as a kill leaves it: no damage
    (tmp_path / "runs" / "else").mkdir()
    (tmp_path / "runs" / "else" / "metrics.jsonl").write_text("{}\n")
    found = write(tmp_path / "runs", tmp_path / "page.html", experiments=KNOWN)
    text = " ".join(" ".join(read(tmp_path / "page.html").text).split())
    assert len(found.problems) == 4
    assert "16 runs" not in text
    assert "13 runs, 13 finished, 4 that cannot be read" in text
    for name in ("original-s0", "lean-s0", "depth_only-s0", "else"):
        assert re.search(rf"{name} \((damaged|foreign)\)", text), name


def test_records_that_are_sound_json_and_make_no_sense_are_listed_too(tmp_path: Path) -> None:
    runs = comparison(tmp_path / "runs", FOUR, "small", TOP1)
    (runs[0].path / "metrics.jsonl").write_text('{"kind": "eval", "step": "three", "top1": 0.5}\n')
    (runs[1].path / "spectra.jsonl").write_text('{"log_kappa": 3}\n')
    assert len(write(tmp_path / "runs", tmp_path / "page.html", experiments=KNOWN).problems) == 2


def test_odd_values_anywhere_in_a_run_break_nothing(tmp_path: Path) -> None:
    """Each run has one value of its records replaced by something that no training writes."""
    odd = [None, "x", [], {}, [1], {"a": 1}, "1e999", -1, 10**400, True, "<b>", 1e-320, 1e200]
    rng, names = random.Random(0), ("result.json", "metrics.jsonl", "spectra.jsonl")
    for number in range(120):
        path, name = tmp_path / "runs" / f"run{number}", names[number % 3]
        put(path, specs(FOUR, "small")[number % 16], 0.8, points=3)
        lines = [json.loads(line) for line in (path / name).read_text().splitlines()]
        spots = [(part, key) for part in _parts(lines) for key in part]
        part, key = rng.choice(spots)
        part[key] = odd[number % len(odd)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (path / name).write_text(text.replace('"1e999"', "1e999"))
    found = write(tmp_path / "runs", tmp_path / "page.html", experiments=KNOWN)
    assert 20 < len(found.problems) < 100
    page = (tmp_path / "page.html").read_text()
    assert not re.search(r'd="[^"]*(nan|inf)', page)
    read(tmp_path / "page.html")


def _parts(value: object) -> Iterator[dict[str, object]]:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if isinstance(value, dict):
        yield value
    for item in inside:
        yield from _parts(item)


def test_runs_that_are_not_finished_are_shown_as_what_they_are(tmp_path: Path) -> None:
    spec = specs(FOUR, "small")[0]
    run = Run.create(tmp_path / "runs" / "original-s0", spec)
    run.metrics.append({"kind": "eval", "step": 10, "top1": 0.3, "loss": 2.0})
    run.write_status(state="failed", step=12, total=100, message="the loss of step 12 is <nan>")
    write(tmp_path / "runs", tmp_path / "page.html", experiments=KNOWN)
    text = " ".join(" ".join(read(tmp_path / "page.html").text).split())
    assert "the loss of step 12 is <nan>" in text
    assert "1 failed" in text
    assert "lean against original: nothing to compare in top1." in text


def test_runs_of_no_experiment_are_grouped_by_what_they_are(tmp_path: Path) -> None:
    spec = specs(FOUR, "small")[0]
    for seed in (0, 1):
        finish(tmp_path / f"mine-s{seed}", run_spec(spec.arch, spec.task, spec.recipe, seed), 0.7 + 0.1 * seed)
    finish(tmp_path / "deep" / "mine-s5", run_spec(spec.arch, spec.task, changed(spec.recipe, lr=1.0), 5), 0.9)
    section = read_runs(tmp_path, {}).sections[0]
    assert {arm.name: len(arm.runs) for arm in section.arms} == {"mine": 1, "mine (mine-s0)": 2}
    assert any(line.startswith("kappa at the end: 54.6 to 54.6 times") for line in conclusion(section))
    assert not any(word in line for line in conclusion(section) for word in ("holds", "better", "worse"))


def test_a_number_that_json_does_not_have_leaves_a_gap(tmp_path: Path) -> None:
    spec = specs(FOUR, "small")[0]
    run = Run.create(tmp_path / "run", spec)
    run.metrics.append({"kind": "eval", "step": 1, "top1": float("nan"), "loss": 1.0})
    run.spectra.append({"step": 1, "kind": "softmax", "log_kappa": float("inf"), "gaussian_log_kappa": 1.0})
    run.finish({"better": ["top1", "up"], "score": {"top1": float("nan"), "loss": 1.0}})
    write(tmp_path, tmp_path / "page.html", experiments=KNOWN)
    assert "nan" not in (tmp_path / "page.html").read_text().lower().replace("isnan", "")


def test_every_experiment_of_both_papers_is_there_and_smoke_claims_nothing(tmp_path: Path) -> None:
    tried = {name: one for name, one in EXPERIMENTS.items() if "smoke" in one.settings}
    for experiment in tried.values():
        quick(tmp_path / "runs", experiment, "smoke", lambda spec: 0.5 + 0.01 * (spec.label["order"] % 7))
    found = write(tmp_path / "runs", tmp_path / "page.html")
    assert found.problems == []
    page = (tmp_path / "page.html").read_text()
    headings = re.findall(r'<h2 id="s\d+">([a-z0-9_]+).*?<span class="tag">([^<]*)', page)
    assert {name for name, _ in headings} == tried.keys()
    assert {tag for _, tag in headings} == {"smoke: claims nothing"}
    assert not re.search('class="badge (yes|no|noise|open)"', page)
    for section in found.sections:
        assert figures(section), section.title
    read(tmp_path / "page.html")


@pytest.mark.slow  # writes and reads 2,100 runs: 9 seconds of one core
def test_thousands_of_runs_make_a_small_page_in_seconds(tmp_path: Path) -> None:
    many(tmp_path / "runs", specs(FOUR, "small")[0], arms=30, seeds=70)
    began = time.process_time()
    found = write(tmp_path / "runs", tmp_path / "page.html")
    spent = time.process_time() - began
    assert len(found.sections[0].runs) == 2100
    assert spent < 20, f"{spent:.1f} s"
    assert (tmp_path / "page.html").stat().st_size < 2e6
    read(tmp_path / "page.html")


def test_a_folder_without_runs_and_a_page_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run folder"):
        write(tmp_path, tmp_path / "page.html")
    finish(tmp_path / "run", specs(FOUR, "small")[0], 0.5)
    (tmp_path / "page.html").mkdir()
    with pytest.raises(UserError, match="cannot be written"):
        write(tmp_path, tmp_path / "page.html")
