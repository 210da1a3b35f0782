"""`manyheads run` takes the runs of packs below its folder for finished, and trains none of them again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.experiments import registry
from manyheads.runs import find
from manyheads.runs.pack import pack
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Pretraining, folder, specs
from manyheads.sweep.plan import with_weights
from tests.cli.test_run import call, here, states, toys  # noqa: F401

Packing = Callable[[Path], Path]


@pytest.fixture
def packing(toys: None) -> Packing:  # noqa: F811
    """Trains `toy` below a folder and puts a pack in the place of its folders; the pack."""

    def make(root: Path) -> Path:
        call("toy", *here(root))
        out = root / "toy.jsonl.xz"
        assert pack(root, out).runs == 2
        shutil.rmtree(root / "toy-smoke")
        return out

    return make


def test_packed_runs_are_finished_and_get_no_folder(tmp_path: Path, packing: Packing) -> None:
    out = packing(tmp_path)
    assert call("toy", *here(tmp_path)).stdout.startswith("2 finished before;")
    assert call("toy", *here(tmp_path), "--list").stdout.strip() == ""
    assert "2 runs, 2 done" in call("toy", "--out", str(tmp_path), "--dry-run").stdout
    assert list(tmp_path.iterdir()) == [out]
    assert call("toy", *here(tmp_path), "--seeds", "0,1").stdout.startswith("2 done, 2 finished before;")
    assert {path.name for path in (tmp_path / "toy-smoke").iterdir()} == {"original-s1", "lean-s1"}


def test_a_packed_run_gives_its_result_to_the_same_run_of_another_experiment(tmp_path: Path, packing: Packing) -> None:
    packing(tmp_path)
    assert call("all", *here(tmp_path)).stdout.startswith("3 finished before;")
    assert states(tmp_path) == {
        "toy.jsonl.xz/toy-smoke/original-s0": "done",
        "toy.jsonl.xz/toy-smoke/lean-s0": "done",
        "twin-smoke/same-s0": "done",
    }
    twin, packed = (next(run for run in find(tmp_path) if run.path.name == name) for name in ("same-s0", "original-s0"))
    assert twin.result == packed.result
    assert twin.spec is not None
    assert twin.spec.label["trained_in"] == "toy.jsonl.xz/toy-smoke/original-s0"
    assert twin.records("metrics") == packed.records("metrics")
    assert call("all", *here(tmp_path)).stdout.startswith("3 finished before;")


def test_a_damaged_pack_stops_the_command_before_its_runs_are_trained_again(tmp_path: Path, packing: Packing) -> None:
    out = packing(tmp_path)
    out.write_bytes(out.read_bytes()[:-20])
    for more in ([], ["--dry-run"], ["--list"]):
        with pytest.raises(UserError, match=r"is damaged: line .*; once it is moved away, its runs are trained again"):
            call("toy", *here(tmp_path), *more)
    with pytest.raises(UserError, match="is a file, and runs need a folder"):
        call("toy", *here(out))
    assert list(tmp_path.iterdir()) == [out]


def test_whoever_starts_from_packed_weights_is_told_that_a_pack_has_none(tmp_path: Path, packing: Packing) -> None:
    packing(tmp_path)
    toy = registry.EXPERIMENTS["toy"]
    setting = toy.setting("smoke")
    arms = tuple(replace(arm, start=arm.name) for arm in setting.arms)
    tuning = replace(
        toy, name="tuning", settings={"smoke": replace(setting, arms=arms)}, after=Pretraining("toy", "steps")
    )
    with pytest.raises(UserError, match=r"toy\.jsonl\.xz has that run without its model; move the pack away"):
        with_weights(tmp_path, specs(tuning, "smoke"), tuning, toy)
    assert not folder(tmp_path, specs(tuning, "smoke")[0]).exists()
