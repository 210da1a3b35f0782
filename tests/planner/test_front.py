"""The front is what brute force finds, in flat and in staged models, and the list is chosen from it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from manyheads.arch import families as f
from manyheads.arch import zoo
from manyheads.arch.controls import depths, head_dims, heads, mlp_dims
from manyheads.arch.count import params
from manyheads.arch.redesign import redesign
from manyheads.planner import Budget, Limits, Plan, plan
from manyheads.planner.design_facts import facts
from manyheads.planner.reasons_and_warnings import tally
from manyheads.spec.arch import Arch
from tests.models.tiny import ORIGINALS

FLAT = f.vit(64, 6, 2, 32, 256, image=32, patch=8, classes=10)
# fmt: off
CASES: dict[str, tuple[Arch, Budget, Limits]] = {
    "wide": (FLAT, Budget(params=0.7), Limits(mlp_multiple=32)),
    "narrow": (f.gpt2(64, 5, 2, 32, 256, vocab=100, tokens=512), Budget(params=0.8), Limits(mlp_multiple=64)),
    "several budgets": (FLAT, Budget(params=0.8, flops=0.6, memory=0.7), Limits(mlp_multiple=32, head_dims=(16, 32, 48))),
    "grouped": (f.gpt2(64, 4, 4, 16, 128, vocab=100, tokens=64), Budget(params=0.9, kv_cache=0.6),
                Limits(kv_heads="any", mlp_multiple=32)),
    "staged": (ORIGINALS["davit"], Budget(params=0.8), Limits(mlp_multiple=16, head_dim_multiple=4)),
}
# fmt: on


def every(found: Plan) -> list[tuple[int, int, int]]:
    """Each place of the grid."""
    return list(product(*map(range, found.space.shape)))


@pytest.mark.parametrize("name", CASES)
def test_the_front_is_what_brute_force_finds(name: str) -> None:
    original, budget, limits = CASES[name]
    found = plan(original, budget, limits)
    space = found.space
    spots = np.array(every(found))
    numbers = facts(original, space.rows((spots[:, 0], spots[:, 1], spots[:, 2])), found.use)
    fits = np.all([numbers.costs[cap.kind] <= cap.most for cap in found.caps], axis=0)
    assert found.fitting == fits.sum() > 0
    serious, cautions = tally(numbers)
    columns = [
        serious,
        cautions,
        *(-s.depth for s in numbers.stages),
        *(-s.heads for s in numbers.stages),
        *(-s.head_dim for s in numbers.stages),
        *(-s.kv_heads for s in numbers.stages),
        *(-s.mlp for s in numbers.stages),
        *(np.round(s.log_kappa, 9) for s in numbers.stages),
    ]
    table = np.stack(columns, axis=1)[fits]
    kept = []
    for row in table:
        no_worse = (table <= row).all(axis=1)
        kept.append(not (no_worse & (table < row).any(axis=1)).any())
    best = {tuple(map(int, spot)) for spot in spots[fits][kept]}
    front = set(zip(*(axis.tolist() for axis in found.spots), strict=True))
    # a smaller MLP with fewer warnings is the one thing the front does not look at: it holds the largest that fits
    assert front <= {tuple(map(int, spot)) for spot in spots[fits]}
    largest = {
        (depth, attention): max(m for d, a, m in map(tuple, spots[fits].tolist()) if (d, a) == (depth, attention))
        for depth, attention, _ in best
    }
    assert front == {spot for spot in best if spot[2] == largest[spot[:2]]}


@pytest.mark.parametrize("name", CASES)
def test_every_listed_design_fits_and_is_on_the_front(name: str) -> None:
    original, budget, limits = CASES[name]
    found = plan(original, budget, limits)
    assert found.designs
    assert len({design.arch for design in found.designs}) == len(found.designs)
    for design in found.designs:
        assert design.fits
        assert design.arch in found
        assert sum(depths(design.arch)) < sum(depths(original))
        assert any(now > before for now, before in zip(heads(design.arch), heads(original), strict=True))
        assert all(now <= before for now, before in zip(mlp_dims(design.arch), mlp_dims(original), strict=True))


def test_the_list_is_in_the_stated_order() -> None:
    found = plan(zoo.get("vit_b"), Budget(params=0.5), top=20)
    levels = [[note.level for note in design.warnings] for design in found.designs]
    keys = [
        (level.count("serious"), level.count("caution"), round(design.kappa_ratio, 6))
        for level, design in zip(levels, found.designs, strict=True)
    ]
    assert keys == sorted(keys)


def test_a_design_inside_the_front_is_not_on_it() -> None:
    """One head fewer than fits, everything else equal."""
    found = plan(zoo.get("vit_b"), Budget(params=40_112_872))
    lean = redesign(zoo.get("vit_b"), depth=7, heads=15, mlp_dim=1536)
    assert found.judge(lean).fits
    assert lean not in found
    assert redesign(zoo.get("vit_b"), depth=7, heads=16, mlp_dim=1536) in found


def test_a_tight_budget_is_met_to_the_parameter() -> None:
    count = params(zoo.get("vit_s")).total // 2
    for design in plan(zoo.get("vit_s"), Budget(params=count)).designs:
        assert params(design.arch).total == design.costs["params"] <= count


@pytest.mark.parametrize(
    ("limits", "holds"),
    [
        (Limits(policy="split"), lambda a: heads(a)[0] * head_dims(a)[0] == 768),
        (Limits(policy="fixed"), lambda a: head_dims(a) == [64]),
        (Limits(head_dims=(48, 96)), lambda a: head_dims(a)[0] in (48, 96)),
        (Limits(min_depth=7), lambda a: depths(a)[0] >= 7),
        (Limits(max_depth=5), lambda a: depths(a)[0] <= 5),
        (Limits(mlp="held"), lambda a: mlp_dims(a) == [3072]),
        (Limits(heads=(14, 15)), lambda a: heads(a)[0] in (14, 15)),
        (Limits(heads_multiple=8), lambda a: heads(a)[0] % 8 == 0),
        (Limits(mlp_multiple=256), lambda a: mlp_dims(a)[0] % 256 == 0),
        (Limits(kv_heads=4), lambda a: a.stages[0].unit[0][0].op.kv_heads == 4),
    ],
)
def test_limits_are_kept(limits: Limits, holds) -> None:
    found = plan(zoo.get("vit_b"), Budget(params=0.6), limits, top=50)
    assert found.designs
    assert all(holds(design.arch) for design in found.designs)


def test_llama_keeps_its_shared_keys() -> None:
    """fixed keeps the number of key heads, split their columns, as `redesign` does."""
    found = plan(zoo.get("llama_1b"), Budget(params=0.7), top=60)
    for design in found.designs:
        op = design.arch.stages[0].unit[0][0].op  # type: ignore[union-attr,index]
        assert op.kv_heads * op.head_dim == 512 if design.policy == "split" else op.kv_heads == 8  # type: ignore[union-attr]
    assert {design.policy for design in found.designs} == {"fixed", "split"}
