"""Run folders written once load for ever: those of each schema stay here, and are read as they were meant."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from manyheads.runs import Run, find
from manyheads.runs import run as writer
from manyheads.spec import files
from manyheads.spec import run as specs
from tests.runs.examples import spec

GOLDEN = Path(__file__).parent / "golden"
SCHEMAS = sorted(path.name for path in GOLDEN.iterdir())


def test_every_schema_has_golden_folders_and_a_way_up() -> None:
    assert [f"schema{number}" for number in range(1, files.SCHEMA + 1)] == SCHEMAS
    assert set(files.UPGRADERS) == set(range(1, files.SCHEMA))


@pytest.mark.parametrize("schema", SCHEMAS)
def test_golden_folders_load(schema: str) -> None:
    done, stopped = (Run.open(GOLDEN / schema / name) for name in ("done", "stopped"))
    states = [item.state for item in find(GOLDEN / schema) if item.path.parent == GOLDEN / schema]
    assert states == [done.state, stopped.state] == ["done", "stopped"]
    assert done.spec == spec()
    assert done.id == "9d6de9a10637c2e3"
    assert done.spec.label == {"experiment": "fig2", "arm": "lean"}
    assert done.result == {
        "score": {"loss": 0.5, "top1": 0.8125, "kappa": None},
        "better": ["top1", "up"],
        "steps": 100,
        "machine": {"device": "größer"},
    }
    assert [record["step"] for record in done.metrics.read()] == [50, 50, 100, 100]
    assert done.metrics.read()[1] == {"kind": "eval", "step": 50, "samples": 3200, "loss": 1.5, "top1": 0.40625}
    assert [record["log_kappa"] for record in done.spectra.read()] == [2.5257286443082556, None] * 2
    assert done.timings.read() == [{"step": 100, "seconds": 4.25, "rate": 1505.9}]
    assert (done.status or {})["step"] == 100
    assert stopped.spec == spec(1)
    assert stopped.result is None
    assert (stopped.status or {})["message"] == "SIGTERM"
    assert [record["step"] for record in stopped.metrics.read()] == [50, 50]  # the third line is torn


def test_a_folder_of_an_older_schema_goes_on_under_its_own_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a schema to come, a run that today's version began is opened, recognised and finished."""
    run = Run.open(shutil.copytree(GOLDEN / f"schema{files.SCHEMA}" / "stopped", tmp_path / "run"))
    seen = []

    def upgrade(name: str, data: dict) -> dict:
        seen.append(Path(name).name)
        return data | {"schema": files.SCHEMA}

    monkeypatch.setitem(files.UPGRADERS, files.SCHEMA, upgrade)
    monkeypatch.setattr(files, "SCHEMA", files.SCHEMA + 1)
    for module in (specs, writer):
        monkeypatch.setattr(module, "SCHEMA", files.SCHEMA)
    again = Run.create(run.path, spec(1))
    assert again.id == run.id != again.spec.id
    assert again.state == "stopped"
    again.finish({"top1": 1.0})
    assert Run.open(run.path).result == {"top1": 1.0}
    assert {"spec.json", "status.json"} <= set(seen)
    assert json.loads((run.path / "spec.json").read_bytes())["schema"] == files.SCHEMA - 1  # never rewritten
