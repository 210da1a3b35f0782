"""A probe of the user's model replaces what theory assumes: measured kappa, and bounds on rank coverage that hold."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from manyheads.arch import families as f
from manyheads.conditioning.probe import as_record, probe
from manyheads.conditioning.theory import rank_coverage
from manyheads.models.build import build
from manyheads.planner import Budget, Limits, plan
from manyheads.planner.attention_kappa import ProbedStage, read_probe
from manyheads.spec.errors import UserError
from tests.models.tiny import inputs

ARCH = f.vit(64, 4, 2, 32, 128, image=32, patch=8, classes=10)
LIMITS = Limits(mlp_multiple=32)


@pytest.fixture(scope="module")
def record() -> dict:
    """What `manyheads probe --detail --json` writes, through JSON."""
    sites = probe(build(ARCH, seed=0), inputs(ARCH, 4)[0], detail=True)
    return json.loads(json.dumps({"model": "x", "sites": [as_record(site) for site in sites]}, allow_nan=False))


def test_measured_kappa_takes_the_predictions_place(record: dict) -> None:
    plain, probed = (plan(ARCH, Budget(params=0.8), LIMITS, probe=given) for given in (None, record))
    measured = math.exp(sum(site["log_kappa"] for site in record["sites"]) / 4)
    assert probed.original.kappa == pytest.approx(measured)
    assert probed.original.kappa > 3 * plain.original.kappa
    for a, b in zip(plain.designs, probed.designs, strict=True):
        assert b.kappa_ratio == a.kappa_ratio
        assert b.kappa == pytest.approx(measured * b.kappa_ratio)
    words = next(note.words for note in probed.designs[0].reasons if note.code == "kappa")
    assert "probed" in words


def test_rank_coverage_decides_in_place_of_thresholds(record: dict) -> None:
    """These tokens are nearly isotropic: rank 16 of 64 covers far too little, rank 32 more."""
    found = plan(ARCH, Budget(params=0.8), Limits(mlp_multiple=32, policy="split"), probe=record, top=20)
    coverage = sum(site["detail"]["coverage"] for site in record["sites"]) / 4
    for design in found.designs:
        numbers = next(note.numbers for note in design.reasons if note.code == "rank")
        dim = design.dims["head_dim"][0]
        assert numbers["coverage_low"] == pytest.approx(coverage * dim / 32)
        assert ("coverage" in design.codes) == (min(1.0, numbers["coverage_high"]) < 0.9)


@pytest.mark.parametrize("decay", [0.0, 0.5, 1.0, 2.0])
def test_the_bounds_hold_for_any_spectrum(decay: float) -> None:
    variances = np.arange(1, 65, dtype=float) ** -decay
    probed = ProbedStage(0.0, 16, rank_coverage(variances, 16), None)
    for rank in (4, 8, 15, 16, 17, 32, 64):
        low, high = probed.bounds(rank) or (1, 0)
        assert low - 1e-12 <= rank_coverage(variances, rank) <= high + 1e-12


def test_a_probe_without_detail_gives_kappa_alone(record: dict) -> None:
    bare = {"sites": [site | {"detail": None} for site in record["sites"]]}
    (stage,) = read_probe(bare, ARCH)
    assert stage is not None
    assert stage.coverage is None
    assert stage.bounds(16) is None
    found = plan(ARCH, Budget(params=0.8), LIMITS, probe=bare)
    assert all("coverage" not in design.codes for design in found.designs)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda r: {"rows": []}, "no probe record"),
        (lambda r: [], "no probe record"),
        (lambda r: {"sites": [site | {"heads": 3} for site in r["sites"]]}, "of another model"),
        (lambda r: {"sites": [site | {"log_kappa": None} for site in r["sites"]]}, "no finite kappa"),
    ],
)
def test_a_record_of_something_else_is_refused(record: dict, change, says: str) -> None:
    with pytest.raises(UserError, match=says):
        plan(ARCH, Budget(params=0.8), LIMITS, probe=change(record))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("log_kappa", value) for value in ("x", [], True, 1e308, -1.0, float("nan"))),
        *(("detail", value) for value in (3, "x", [1])),
        *(("detail", {name: value}) for name in ("coverage", "tokens_kappa") for value in ("x", -1, [])),
        *(("kind", value) for value in (3, [], {})),
    ],
)
def test_a_number_that_no_probe_writes_is_named(record: dict, field: str, value: object) -> None:
    first, *others = record["sites"]
    changed = {"sites": [first | {field: value}, *others]}
    with pytest.raises(UserError, match=r"sites\[0\] of the probe record"):
        plan(ARCH, Budget(params=0.8), LIMITS, probe=changed)
