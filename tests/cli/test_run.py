"""`manyheads run` as a person meets it: it goes on where it was, hides no failure, and says beforehand what it
takes."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from manyheads.cli.run import run
from manyheads.experiments import registry
from manyheads.runs import Run, find
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Arm
from manyheads.spec.lock import Lock
from manyheads.sweep.plan import adopt
from tests.sweep.killing import environment
from tests.sweep.tiny import tiny

app = typer.Typer()
app.command()(run)


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two experiments in place of the real ones: `toy` with two arms, and `twin`, of which one arm is the same run."""
    toy = replace(tiny(4, probe_every=0, checkpoint_every=2), name="toy", run="")
    setting = toy.setting("smoke")
    only = Arm("same", setting.arms[0].arch)
    twin = replace(toy, name="twin", settings={"smoke": replace(setting, arms=(only,))})
    monkeypatch.setattr(registry, "EXPERIMENTS", {"toy": toy, "twin": twin})


def call(*args: str, code: int = 0) -> Result:
    """`manyheads run ARGS` in this process."""
    result = CliRunner().invoke(app, [*args] if "--device" in args else [*args, "--device", "cpu"])
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def here(root: Path) -> list[str]:
    """Options that keep everything in this process."""
    return ["--out", str(root), "--executor", "process", "--quiet"]


def states(root: Path) -> dict[str, str]:
    """Where every run stands."""
    return {found.path.relative_to(root).as_posix(): found.state for found in find(root)}


def test_it_runs_every_arm_and_again_it_runs_nothing(tmp_path: Path, toys: None) -> None:
    assert call("toy", *here(tmp_path)).stdout.startswith("2 done; for a page: manyheads report")
    assert states(tmp_path) == {"toy-smoke/original-s0": "done", "toy-smoke/lean-s0": "done"}
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    assert call("toy", *here(tmp_path)).stdout.startswith("2 finished before;")
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


def test_all_trains_what_is_the_same_once(tmp_path: Path, toys: None) -> None:
    assert call("all", *here(tmp_path)).stdout.startswith("2 done, 1 the same as others;")
    assert set(states(tmp_path)) == {"toy-smoke/original-s0", "toy-smoke/lean-s0", "twin-smoke/same-s0"}
    assert set(states(tmp_path).values()) == {"done"}
    one, same = (tmp_path / name / "metrics.jsonl" for name in ("toy-smoke/original-s0", "twin-smoke/same-s0"))
    assert one.read_bytes() == same.read_bytes()
    assert call("all", *here(tmp_path)).stdout.startswith("3 finished before;")


def test_arms_and_seeds_are_chosen(tmp_path: Path, toys: None) -> None:
    call("toy", *here(tmp_path), "--arms", "lean", "--seeds", "3,4")
    assert set(states(tmp_path)) == {"toy-smoke/lean-s3", "toy-smoke/lean-s4"}


def test_a_failed_run_is_named_at_the_end_and_the_others_are_done(
    tmp_path: Path, toys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy = registry.EXPERIMENTS["toy"]
    setting = toy.setting("smoke")
    wild = replace(setting.arms[0], name="wild", recipe={"lr": 1e6, "clip": 0.0, "explode": 1.0})
    arms = (wild, setting.arms[1])
    changed = replace(toy, settings={"smoke": replace(setting, arms=arms)})
    monkeypatch.setattr(registry, "EXPERIMENTS", {"toy": changed})
    result = call("toy", *here(tmp_path), code=1)
    assert result.stdout.startswith("1 done, 1 failed;")
    assert "toy-smoke/wild-s0: failed: the loss of step" in result.stderr
    assert states(tmp_path) == {"toy-smoke/wild-s0": "failed", "toy-smoke/lean-s0": "done"}


def test_a_dry_run_says_what_it_takes_and_writes_nothing(tmp_path: Path, toys: None) -> None:
    told = call("toy", "--out", str(tmp_path / "runs"), "--dry-run", "--workers", "2").stdout
    lines = told.splitlines()
    assert lines[0].split() == ["arm", "runs", "done", "params", "steps", "FLOPs", "time", "memory"]
    assert lines[1].split()[:6] == ["original", "1", "0", "206.0", "k", "4"]
    assert "2 runs, 0 done" in told
    assert "with 2 side by side" in told
    assert "Assumed: 2 runs of 1 thread share " in told
    assert "Assumed: each run has a device of its own" in call("toy", "--dry-run", "--executor", "slurm").stdout
    assert not (tmp_path / "runs").exists()


def test_a_dry_run_counts_what_is_done_and_not_another_run_in_its_place(tmp_path: Path, toys: None) -> None:
    call("toy", *here(tmp_path), "--arms", "lean")
    assert "2 runs, 1 done; the rest: about" in call("toy", "--out", str(tmp_path), "--dry-run").stdout
    (tmp_path / "toy-smoke" / "lean-s0").rename(tmp_path / "toy-smoke" / "original-s0")
    assert "2 runs, 0 done" in call("toy", "--out", str(tmp_path), "--dry-run").stdout
    with pytest.raises(UserError, match="original-s0 holds another run"):
        call("toy", *here(tmp_path))


@pytest.mark.parametrize("file", ["spec.json", "result.json"])
def test_a_damaged_folder_in_the_way_is_named_with_what_to_do(tmp_path: Path, toys: None, file: str) -> None:
    call("all", *here(tmp_path))
    damaged = tmp_path / "toy-smoke" / "lean-s0"
    (damaged / file).write_text("{")
    for more in ([], ["--dry-run"], ["--list"]):
        with pytest.raises(UserError, match=rf"{file} is damaged.*; once .*lean-s0 is moved away, its run starts anew"):
            call("all", *here(tmp_path), *more)
    damaged.rename(tmp_path / "away")
    assert call("toy", *here(tmp_path)).stdout.startswith("1 done, 1 finished before;")
    same = tmp_path / "twin-smoke" / "same-s0"  # finished under another name, too: it is not made good from there
    (same / file).write_text("{")
    with pytest.raises(UserError, match="same-s0 is moved away"):
        call("all", *here(tmp_path))


def test_list_prints_a_command_for_every_run_that_is_left(tmp_path: Path, toys: None) -> None:
    call("toy", *here(tmp_path), "--arms", "lean")
    (line,) = call("toy", "--out", str(tmp_path), "--list").stdout.splitlines()
    command = shlex.split(line)
    assert command[:3] == ["manyheads", "train", "--resume"]
    assert Run.open(command[3]).state == "new"
    assert Path(command[3]) == tmp_path / "toy-smoke" / "original-s0"
    assert command[4:] == ["--quiet", "--device", "cpu"]
    (line,) = call("toy", "--out", str(tmp_path), "--list", "--threads", "3").stdout.splitlines()
    assert shlex.split(line) == ["env", "OMP_NUM_THREADS=3", "MKL_NUM_THREADS=3", *command]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["toi"], "no experiment is called 'toi'; did you mean toy"),
        (["toy", "--scale", "large"], "write one of smoke, laptop, small, paper"),
        (["toy", "--scale", "paper"], "has no scale 'paper'"),
        (["toy", "--arms", "leen"], "has no arm 'leen' at scale smoke"),
        (["all", "--arms", "lean"], "belong to one experiment"),
        (["toy", "--seeds", "0;1"], "write whole numbers"),
        (["toy", "--seeds", "0,0"], "none twice"),
        (["toy", "--seeds", "-1"], "write a whole number of at least 0"),
        (["toy", "--executor", "rey"], "write one of process, processes, ray, slurm"),
        (["toy", "--executor", "process", "--workers", "2"], "write --executor processes"),
        (["toy", "--workers", "-1"], "--workers -1: write 0 or more"),
        (["toy", "--executor", "ray", "--workers", "0"], "--workers 0: write 1 or more"),
        (["toy", "--dry-run", "--threads", "0"], "--threads 0: write 1 or more"),
        (["toy", "--dry-run", "--threads", "9" * 60], "at most 100,000"),
        (["toy", "--dry-run", "--workers", "9" * 60], "at most 100,000"),
        (["toy", "--device", "gpu"], "--device gpu: write cpu, cuda or cuda:1"),
        (["toy", "--device", "cuda:99"], "PyTorch sees no GPU here|GPUs here"),
        (["toy", "--slurm", "partition=gpu"], "belongs to --executor slurm"),
        (["toy", "--executor", "slurm", "--slurm", "gpu"], "write NAME=VALUE"),
        (["toy", "--dry-run", "--tflops", "0"], "write a number above 0"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(tmp_path: Path, toys: None, args: list[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        call(*args, "--out", str(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_an_interrupted_run_goes_on_and_no_number_changes(
    tmp_path: Path, toys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("toy", *here(tmp_path / "quiet"), "--arms", "lean")
    from manyheads.train import loop

    save, saved = loop.Session.save, []

    def die(self: loop.Session) -> None:
        save(self)
        saved.append(self.state.step)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop.Session, "save", die)
        call("toy", *here(tmp_path / "killed"), "--arms", "lean", code=130)
    assert saved == [2]
    assert call("toy", *here(tmp_path / "killed"), "--arms", "lean").stdout.startswith("1 done;")
    one, other = (tmp_path / root / "toy-smoke" / "lean-s0" for root in ("quiet", "killed"))
    assert (one / "metrics.jsonl").read_bytes() == (other / "metrics.jsonl").read_bytes()
    assert json.loads((other / "status.json").read_text())["state"] == "done"


@pytest.mark.slow  # 20 s of CPU: six processes that each load PyTorch
def test_the_same_command_six_times_at_once_runs_every_run_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "manyheads", "run", "theorem", "--scale", "smoke", *here(tmp_path)]
    several = [
        subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        for _ in range(6)
    ]
    told = [process.communicate(timeout=300) for process in several]
    assert [process.returncode for process in several] == [0] * 6, told
    assert set(states(tmp_path).values()) == {"done"}
    for path in tmp_path.glob("theorem-smoke/*"):
        records = Run.open(path).spectra.read()
        assert len({json.dumps(record) for record in records}) == len(records)


def test_what_another_process_copies_at_the_same_moment_is_left_to_it(
    tmp_path: Path, toys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("toy", *here(tmp_path))
    call("twin", *here(tmp_path))
    assert states(tmp_path)["twin-smoke/same-s0"] == "done"
    made = Run.open(tmp_path / "twin-smoke" / "same-s0")
    shutil.rmtree(made.path)
    assert made.result is None
    elsewhere = Run.create(made.path, made.spec)
    with elsewhere.locked():
        assert adopt(tmp_path, [made.spec]) == []
    take = Lock.take

    def take_late(lock: Lock) -> None:
        """The other process is faster."""
        monkeypatch.setattr(Lock, "take", take)
        elsewhere.finish({"score": {}})
        take(lock)

    monkeypatch.setattr(Lock, "take", take_late)
    assert adopt(tmp_path, [made.spec]) == []
    assert Run.open(made.path).result == {"score": {}}
