"""Python files that a model brings are executed where `--trust-remote-code` is written, and not otherwise."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from manyheads.cli.probe import probe
from manyheads.cli.rank import rank
from manyheads.spec.errors import UserError
from tests.interop.evil import evil

app = typer.Typer()
app.command()(probe)
app.command()(rank)


@pytest.mark.parametrize("command", ["probe", "rank"])
def test_yes_is_not_enough(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = pytest.importorskip("transformers.dynamic_module_utils", reason="transformers is in the hf extra")
    monkeypatch.setattr(modules, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    ran = evil(tmp_path / "model", "evil")
    words = [command, f"hf:{tmp_path / 'model'}", "--random", "--tokens", "8"]
    refused = CliRunner().invoke(app, words, input="y\n" * 9)
    assert isinstance(refused.exception, UserError)
    assert "--trust-remote-code" in str(refused.exception)
    assert not ran.exists()
    done = CliRunner().invoke(app, [*words, "--trust-remote-code"])
    assert done.exit_code == 0, done.output
    assert ran.exists()
