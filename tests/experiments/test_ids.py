"""The runs of every experiment stay the runs they are: their folders and ids, on which finished runs are recognised.

`golden/ids.json` has one hash for each experiment and scale, over the lines "FOLDER ID" of all its runs in order. Where
one differs, `python -m tests.experiments.test_ids EXPERIMENT SCALE` prints the lines of today, to be compared with
those of the commit before."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

from manyheads.experiments.registry import EXPERIMENTS
from manyheads.spec.experiment import folder, specs

GOLDEN = json.loads((Path(__file__).parent / "golden" / "ids.json").read_bytes())


def lines(name: str, scale: str) -> str:
    """FOLDER ID, a line for each run."""
    runs = specs(EXPERIMENTS[name], scale)
    return "".join(f"{folder(Path(), spec).as_posix()} {spec.id}\n" for spec in runs)


@pytest.mark.parametrize("label", GOLDEN)
def test_an_experiment_has_the_runs_it_had(label: str) -> None:
    name, _, scale = label.rpartition("-")
    assert hashlib.sha256(lines(name, scale).encode()).hexdigest()[:16] == GOLDEN[label]


def test_every_experiment_is_held_to_its_runs() -> None:
    assert set(GOLDEN) == {f"{name}-{scale}" for name in EXPERIMENTS for scale in EXPERIMENTS[name].settings}


if __name__ == "__main__":
    print(lines(*sys.argv[1:]), end="")
