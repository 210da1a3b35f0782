"""What people see: lines for logs, a bar for terminals, silence when asked, curves for TensorBoard."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from manyheads.runs import Run
from manyheads.spec.errors import UserError
from manyheads.train.budget import TrainingBudget
from manyheads.train.loop import train
from manyheads.train.progress import Bar, LogLines, Silent, watch
from tests.train.tiny import spec, steps


def test_lines_name_the_run_the_step_the_rate_and_the_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(Run.create(tmp_path / "lean-s0", spec(basis=steps(8))), device="cpu")
    told = capsys.readouterr()
    assert told.out == ""
    last = told.err.splitlines()[-1]
    assert last.startswith("lean-s0: step 8/8  100 %")
    assert "images/s" in last
    assert "loss" in last


def test_quiet_is_quiet(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    train(Run.create(tmp_path / "run", spec(basis=steps(8))), device="cpu", quiet=True)
    assert capfd.readouterr() == ("", "")


def test_a_bar_moves_and_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    monkeypatch.setattr(sys, "stdout", out)
    bar = watch("bar", "lean-s0", TrainingBudget(10), "images")
    assert isinstance(bar, Bar)
    bar.move(5, 0.5, 1234.0, {"loss": 0.25, "top1": 0.875})
    bar.say("resuming from step 4")
    bar.close()
    for words in ("lean-s0", "50%", "1,234 images/s", "loss 0.25", "top1 0.875", "resuming from step 4"):
        assert words in out.getvalue()


def test_auto_is_lines_where_there_is_no_terminal() -> None:
    assert isinstance(watch("auto", "run", TrainingBudget(10), "images"), LogLines)
    assert type(watch("none", "run", TrainingBudget(10), "images")) is Silent
    with pytest.raises(UserError, match="write auto, bar, lines or none"):
        watch("loud", "run", TrainingBudget(10), "images")  # type: ignore[arg-type]


def test_events_are_written_or_their_package_is_asked_for(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", spec(basis=steps(8)))
    try:
        import tensorboard  # noqa: F401 (only whether it is there)
    except ImportError:
        with pytest.raises(UserError, match="pip install tensorboard"):
            train(run, device="cpu", progress="none", events=True)
    else:
        train(run, device="cpu", progress="none", events=True)
        assert list((tmp_path / "run" / "events").iterdir())
