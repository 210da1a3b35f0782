"""`manyheads runs` as a person meets it, and as a machine does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from manyheads.runs import Run
from tests.runs.examples import ROOT, spec

LIST = f"""
import sys, typer
sys.path.insert(0, {str(ROOT / "src")!r})
from manyheads.spec.errors import UserError
from manyheads.cli.runs import runs
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(runs)
try:
    app(standalone_mode=False)
except UserError as error:
    sys.exit(str(error))
print([name for name in ("torch", "numpy") if name in sys.modules], file=sys.stderr)
"""


def listed(*args: str, cwd: Path, columns: int = 120, code: int = 0) -> str:
    """Output of the command, which must have loaded neither torch nor numpy."""
    env = os.environ | {"COLUMNS": str(columns), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run([sys.executable, "-c", LIST, *args], capture_output=True, text=True, cwd=cwd, env=env)
    assert done.returncode == code, done.stderr
    assert code or done.stderr == "[]\n"
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Runs of all kinds, some of them not nice."""
    folder = tmp_path / "runs"
    done = Run.create(folder / "fig2-smoke" / "lean-s0", spec())
    done.write_status(state="running", step=100, total=100)
    done.finish({"score": {"top1": 0.8125, "loss": 0.5}, "better": ["top1", "up"]})
    Run.create(folder / "timed", spec(1)).write_status(state="stopped", step=7, progress=0.25)
    Run.create(folder / "nan", spec(2)).write_status(state="failed", step=3, total=9, message="loss is NaN at step 3")
    (Run.create(folder / "half", spec(3)).path / "result.json").write_text("{")
    odd = Run.create(folder / "[bold]größe\x1b[31m\udcff", spec(4))
    odd.write_status(state="stopped", step=1, more="x")
    (odd.path / "status.json").write_text('{"schema": 1, "step": "many", "updated": 5, "message": ["x"]}')
    Run.create(folder / "fresh", spec(5)).finish({"score": None, "better": 3})
    return folder


def test_the_table_says_where_each_run_stands(root: Path) -> None:
    lines = listed(cwd=root.parent).splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.strip()}
    assert rows["fig2-smoke/lean-s0"][:5] == ["done", "lean", "100/100", "top1", "0.8125"]
    assert rows["timed"][:5] == ["stopped", "lean", "7", "(25", "%)"]
    assert rows["nan"][:3] == ["failed", "lean", "3/9"]
    assert "nan: loss is NaN at step 3" in lines
    assert rows["half"][:2] == ["damaged", "lean"]
    assert rows["[bold]größe?[31m?"][:2] == ["stopped", "lean"]  # nothing in a name is obeyed
    assert rows["fresh"][:2] == ["done", "lean"]
    assert any(line.startswith("half: ") and "result.json is" in line for line in lines)
    assert lines[-1] == "2 done, 2 stopped, 1 failed, 1 damaged"


def test_a_narrow_terminal_loses_no_part_of_a_name(root: Path) -> None:
    name = "experiment/" + "very-long-name-" * 5 + "s0"
    Run.create(root / name, spec(9))
    lines = listed(cwd=root.parent, columns=60).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("experiment/"))
    wide = lines[0].index("state")
    assert name in "".join(line[:wide].strip() for line in lines[start : start + 5])


def test_machines_get_all_of_it(root: Path) -> None:
    rows = {Path(row["path"]).name: row for row in json.loads(listed("runs", "--json", cwd=root.parent))}
    assert len(rows) == 6
    done = rows["lean-s0"]
    assert (done["state"], done["metric"], done["value"], done["seed"]) == ("done", "top1", 0.8125, 0)
    assert done["label"] == {"experiment": "fig2", "arm": "lean"}
    assert done["name"] == "fig2-smoke/lean-s0"
    assert "result.json is damaged" in rows["half"]["problem"]
    assert rows["nan"]["message"] == "loss is NaN at step 3"


def test_a_missing_root_and_an_empty_one_are_told_apart(tmp_path: Path) -> None:
    assert "runs is no folder" in listed(cwd=tmp_path, code=1)
    assert listed(".", cwd=tmp_path).strip() == "no run folders in ."
    assert json.loads(listed(".", "--json", cwd=tmp_path)) == []
