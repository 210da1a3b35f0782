"""A run that is killed, whenever and however often, ends with the bits of one that never was."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from manyheads.runs import Run, RunSpec
from tests.faults.killing import KILLED, attempt, killed_at, timed, waits
from tests.train.tiny import spec, steps, traces

# fmt: off
RUNS = {
    "plain": spec(basis=steps(60), checkpoint_every=4, evaluate_every=7, probe_every=20),
    "noisy": spec(basis=steps(60), checkpoint_every=0.06, evaluate_every=0.25, log_every=7, ema=0.9, accumulate=2, seed=3,
                  rates={"dropout": 0.1, "attention": 0.1, "path": 0.2}),
}
# fmt: on


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[float, dict[str, bytes]]]:
    """What each run writes when nobody kills it, and how long it takes."""
    folder = tmp_path_factory.mktemp("whole")
    attempt(folder / "warm", RUNS["plain"], 180)  # the server that forks has to import everything first
    return {name: (timed(folder / name, made), traces(folder / name)) for name, made in RUNS.items()}


def finished(folder: Path, made: RunSpec, bits: dict[str, bytes]) -> None:
    """Undisturbed, the run ends, with these bits and no debris."""
    attempt(folder, made, 180)
    assert Run.open(folder).state == "done"
    assert traces(folder) == bits
    assert not list(folder.rglob("*.partial*"))


@pytest.mark.parametrize("name", RUNS)
def test_killed_at_random_moments(name: str, whole: dict, tmp_path: Path) -> None:
    """Six kills, each after a time in which an undisturbed run would have come some way."""
    seconds, bits = whole[name]
    kills = 0
    for wait in waits(7, 0.1 * seconds, 0.5 * seconds):
        kills += attempt(tmp_path / "run", RUNS[name], wait) == KILLED
        if kills == 6 or Run.open(tmp_path / "run").state == "done":
            break
    assert kills >= 3
    finished(tmp_path / "run", RUNS[name], bits)


@pytest.mark.parametrize("name", RUNS)
def test_killed_at_file_operations(name: str, whole: dict, tmp_path: Path) -> None:
    """Eight kills in a row: while a checkpoint is written or named, a status replaced, an old checkpoint deleted."""
    _, bits = whole[name]
    places = random.Random(11)
    kills = sum(killed_at(tmp_path / "run", RUNS[name], places.randrange(20, 50)) == KILLED for _ in range(8))
    assert kills >= 6
    finished(tmp_path / "run", RUNS[name], bits)


def test_killed_once_from_the_first_checkpoint_to_the_result(tmp_path: Path) -> None:
    """A fresh run for each kill, two operations further each time; some leave a part of a checkpoint."""
    made = spec(basis=steps(5), checkpoint_every=2, evaluate_every=0, probe_every=0.5)
    attempt(tmp_path / "whole", made, 180)
    debris = kills = 0
    for event in range(20, 100, 2):
        folder = tmp_path / str(event)
        if killed_at(folder, made, event) == 0:
            break
        kills += 1
        debris += bool(list(folder.glob("checkpoint/*.partial")))
        finished(folder, made, traces(tmp_path / "whole"))
    assert kills >= 18
    assert debris >= 6
