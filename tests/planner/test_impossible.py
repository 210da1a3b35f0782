"""A budget that nothing fits says how close one can get, and gets as close as brute force does."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from manyheads.arch import families as f
from manyheads.arch import zoo
from manyheads.arch.count import forward_flops, params, training_bytes
from manyheads.planner import Budget, Limits, plan
from manyheads.spec.errors import UserError

SMALL = f.vit(64, 4, 2, 32, 256, image=32, patch=8, classes=10)


def test_the_closest_design_is_the_closest() -> None:
    found = plan(SMALL, Budget(params=1000), Limits(mlp_multiple=32))
    every = [found.space.arch(*at) for at in product(*map(range, found.space.shape))]
    assert found.designs == ()
    assert len(found.front) == 0
    assert found.closest is not None
    assert params(found.closest.arch).total == min(params(arch).total for arch in every) == found.least["params"]


def test_two_budgets_that_only_fit_apart() -> None:
    """Few parameters ask for few layers, many tokens for little attention: the worse of the two overshoots counts."""
    limits = Limits(mlp_multiple=32)
    every = plan(SMALL, Budget(params=1000), limits)
    archs = [every.space.arch(*at) for at in product(*map(range, every.space.shape))]
    least_params, least_flops = min(params(a).total for a in archs), min(forward_flops(a) for a in archs)
    found = plan(SMALL, Budget(params=int(least_params), flops=int(least_flops) - 1), limits)
    assert found.closest is not None
    worst = min(max(params(a).total / least_params, forward_flops(a) / (least_flops - 1)) for a in archs)
    got = found.closest.arch
    assert max(params(got).total / least_params, forward_flops(got) / (least_flops - 1)) == pytest.approx(worst)


def test_the_sentence_names_budget_least_and_closest() -> None:
    words = plan(zoo.get("vit_b"), Budget(params="1M")).impossible()
    for text in (
        "parameters <= 1.00 M (1M)",
        "parameters cannot come below 5.06 M",
        "lie outside the layers",
        "1 layer,",
        "Loosen",
    ):
        assert text in words
    together = plan(zoo.get("gpt2"), Budget(params=0.45, kv_cache=0.02)).impossible()
    assert "KV cache" in together
    assert plan(zoo.get("vit_b"), Budget(params=0.5)).impossible() == ""


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"min_depth": 12}, "leaves no depth to cut"),
        ({"head_dims": (7,), "policy": "fixed"}, "no heads are left"),
        ({"heads": (5, 3)}, "fewest and the most"),
        ({"policy": "wide"}, "write 'fixed'"),
        ({"mlp": "none"}, "'free' or 'held'"),
        ({"kv_heads": "all"}, "'keep' or 'any'"),
        ({"min_depth": 0}, "whole number"),
        ({"max_depth": 2, "min_depth": 3}, "range"),
        ({"head_dims": (0,)}, "whole number"),
        ({"heads_multiple": 64}, "no heads are left"),
    ],
)
def test_limits_that_leave_nothing_say_so(limits: dict, says: str) -> None:
    with pytest.raises(UserError, match=says):
        plan(zoo.get("vit_b"), Budget(params=0.5), Limits(**limits))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"tokens": 64}, "tokens can be set for language models"),
        ({"batch": 0}, "whole number"),
        ({"precision": "fp8"}, "'amp'"),
        ({"top": 0}, "from 1 up"),
        ({"image": 225}, "patches"),
    ],
)
def test_a_wrong_setting_says_so(settings: dict, says: str) -> None:
    with pytest.raises(UserError, match=says):
        plan(zoo.get("vit_b"), Budget(params=0.5), **settings)


def test_grouped_queries_need_softmax_and_one_stage() -> None:
    with pytest.raises(UserError, match="only softmax attention"):
        plan(zoo.get("xcit_s12"), Budget(params=0.5), Limits(kv_heads=2))
    with pytest.raises(UserError, match="flat models only"):
        plan(zoo.get("davit_t"), Budget(params=0.9), Limits(kv_heads="any"))
    with pytest.raises(UserError, match="judge a redesign of the original"):
        plan(zoo.get("vit_b"), Budget(params=0.5)).judge(zoo.get("davit_t"))


WRONG: list[tuple[str, Any]] = [
    ("heads", (None, 8)),
    ("heads", 12),
    ("heads", ("4", 8)),
    ("heads", (4, 10**20)),
    ("heads", (1, 10**14)),
    ("head_dims", 64),
    ("head_dims", (None,)),
    ("head_dims", (2**63,)),
    ("min_depth", None),
    ("min_depth", 1.5),
    ("max_depth", "3"),
    ("kv_heads", None),
    ("kv_heads", 1.0),
    ("mlp_multiple", None),
    ("mlp_multiple", 10**5000),
    ("policy", 3),
    ("mlp", None),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=[name for name, _ in WRONG])
def test_a_limit_of_a_wrong_type_is_named(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=name):
        plan(SMALL, Budget(params=0.5), Limits(**{name: value}))


@pytest.mark.parametrize("value", ["3", 1.5, None, 0, True, 10**5000], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["top", "batch"])
def test_an_argument_of_a_wrong_type_is_named(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"{name} is "):
        plan(SMALL, Budget(params=0.5), **{name: value})


@pytest.mark.parametrize("value", ["3", float("nan"), 10**400, -1.0])
@pytest.mark.parametrize("name", ["latency", "examples"])
def test_a_number_of_a_wrong_type_is_named(name: str, value: Any) -> None:
    with pytest.raises(UserError, match=f"{name} is "):
        plan(SMALL, Budget(params=0.5), **{name: value})


@pytest.mark.parametrize("args", [(1, Budget(params=0.5)), (SMALL, "0.5x"), (SMALL, Budget(params=0.5), {"heads": 3})])
def test_what_is_no_model_no_budget_or_no_limits_is_named(args: tuple[Any, ...]) -> None:
    with pytest.raises(UserError, match=r"(arch|budget|limits) is .*; write an? (Arch|Budget|Limits)"):
        plan(*args)


@pytest.mark.parametrize("kind", ["params", "flops", "memory", "kv_cache", "latency"])
def test_a_budget_beyond_floats_is_named(kind: str) -> None:
    for value in (10**400, 10**5000, float("nan"), "9" * 5000):
        with pytest.raises(UserError, match=f"{kind} is "):
            Budget(**{kind: value})


@pytest.mark.parametrize("use", [{"batch": 10**14}, {"image": 8 * 10**7}])
def test_costs_that_64_bits_cannot_count_are_refused(use: dict[str, int]) -> None:
    with pytest.raises(UserError, match=r"of the largest design that is searched: .* can be counted"):
        plan(SMALL, Budget(params=0.9), **use)


def test_the_largest_costs_that_are_searched_are_exact() -> None:
    batch = 10**9
    found = plan(SMALL, Budget(memory=0.9), batch=batch)
    best = found.designs[0]
    assert int(best.costs["memory"]) == training_bytes(best.arch, batch, "amp", fused=True)
