"""`manyheads theory` and `manyheads probe` as a person meets them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from manyheads.cli.probe import probe
from manyheads.cli.theory import choose, theory
from manyheads.spec import serialise as record
from manyheads.spec.errors import UserError
from tests.models.tiny import ORIGINALS

app = typer.Typer()
app.command()(probe)
app.command()(theory)


def run(*args: str) -> str:
    """What a command prints; a user's mistake is raised as it is."""
    done = CliRunner(env={"COLUMNS": "140"}).invoke(app, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def davit(tmp_path: Path) -> str:
    record.save(ORIGINALS["davit"], tmp_path / "davit.json")
    return str(tmp_path / "davit.json")


def test_theory_shows_the_peak() -> None:
    out = run("theory", "--tokens", "65", "--head-dim", "16", "--samples", "20")
    assert next(line for line in out.splitlines() if "peak" in line).split()[0] == "4"
    assert "worst at 4.1 heads" in out


def test_theory_for_machines_and_as_a_figure(tmp_path: Path) -> None:
    args = ("theory", "--tokens", "197", "--head-dim", "64", "--json", "--samples", "50")
    point = json.loads(run(*args, "--heads", "12"))["rows"]
    assert len(point) == 1
    assert point[0]["kappa"] == pytest.approx(2.98, abs=0.02)
    assert point[0]["sampled_log_kappa"] == pytest.approx(point[0]["log_kappa"], abs=0.02)
    report = json.loads(run(*args, "--plot", str(tmp_path / "theory.svg")))
    assert [row["heads"] for row in report["rows"]] == choose(197 / 64)
    assert "<svg" in (tmp_path / "theory.svg").read_text()


def test_probe_prints_every_site_and_says_what_it_measured(davit: str) -> None:
    out = run("probe", davit, "--batch", "2")
    assert out.count("blocks.") == 16
    assert "initial weights (seed 0) on 2 samples of noise" in out
    assert "window: 8 layers" in out
    assert "channel: 8 layers" in out


def test_probe_for_machines_and_as_a_figure(tmp_path: Path) -> None:
    record.save(ORIGINALS["vit"], tmp_path / "vit.json")
    options = ("--json", "--detail", "--jacobian", "--plot", str(tmp_path / "kappa.svg"))
    report = json.loads(run("probe", str(tmp_path / "vit.json"), *options))
    assert (report["input"], report["weights"]) == ("noise", "initial weights (seed 0)")
    assert len(report["sites"]) == 3
    site = report["sites"][-1]
    assert site["kappa"] == pytest.approx(math.exp(site["log_kappa"]))
    assert site["detail"]["entropy"] > 0
    assert site["jacobian"]["sigma_max"] > 0
    assert "<svg" in (tmp_path / "kappa.svg").read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("theory", "--tokens", "0", "--head-dim", "4"), "--tokens 0"),
        (("theory", "--tokens", "9", "--head-dim", "4", "--samples", "0", "--plot", "x.txt"), "ends in .svg"),
        (("probe", "vit_q"), "did you mean"),
        (("probe", "vit_b", "--batch", "0"), "--batch 0"),
        (("probe", "vit_b", "--images", "a", "--text", "b"), "both"),
        (("probe", "nystromformer_listops", "--images", "a"), "does not take images"),
    ],
)
def test_a_mistake_is_a_sentence(args: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(*args)
