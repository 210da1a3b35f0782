"""Budgets as people say them; what is no amount is refused with what to write."""

from __future__ import annotations

import pytest

from manyheads.planner.constraints import Budget, parse
from manyheads.spec.errors import UserError

ORIGINAL = {"params": 86_567_656.0, "flops": 35e9, "memory": 4e9, "kv_cache": 1e6, "latency": 1.0}


@pytest.mark.parametrize(
    ("kind", "value", "amount", "relative"),
    [
        ("params", 0.5, 0.5, True),
        ("params", "0.5x", 0.5, True),
        ("params", "50%", 0.5, True),
        ("params", 40_000_000, 4e7, False),
        ("params", "40M", 4e7, False),
        ("params", "1.2b", 1.2e9, False),
        ("params", "40112872", 40_112_872.0, False),
        ("flops", "17G", 17e9, False),
        ("flops", "1.5 TFLOPs", 1.5e12, False),
        ("memory", "12GB", 12e9, False),
        ("memory", "8GiB", 8 * 2.0**30, False),
        ("kv_cache", "200 mb", 2e8, False),
        ("latency", "5ms", 5e-3, False),
        ("latency", "0.6x", 0.6, True),
    ],
)
def test_an_amount_is_read(kind: str, value: int | float | str, amount: float, relative: bool) -> None:
    assert parse(kind, value) == (pytest.approx(amount), relative)


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        ("params", "0.5", "without a unit"),
        ("params", "half", "no amount of parameters"),
        ("params", 40e6, "a float is a multiple"),
        ("params", 0, "more than 0"),
        ("params", "-1M", "no amount"),
        ("params", True, "write a share"),
        ("memory", "12", "come in"),
        ("memory", "12M", "come in b, kb"),
        ("latency", 5, "absolute"),
        ("flops", "17GB", "come in"),
        ("params", "0x", "more than 0"),
        ("params", float("nan"), "more than 0"),
    ],
)
def test_what_is_no_amount_says_what_to_write(kind: str, value: object, says: str) -> None:
    with pytest.raises(UserError, match=says):
        Budget(**{kind: value}).caps(ORIGINAL | {"latency": 0.0})  # type: ignore[arg-type]


def test_caps_are_absolute_and_several_at_once() -> None:
    caps = Budget(params="0.5x", memory="1GB").caps(ORIGINAL)
    assert [(cap.kind, cap.most) for cap in caps] == [("params", 43_283_828.0), ("memory", 1e9)]
    assert [cap.given for cap in caps] == ["0.5x", "1GB"]


def test_a_share_of_a_count_is_exact() -> None:
    """0.1 x 10 and the like must not lose the design that has exactly that many."""
    (cap,) = Budget(params=0.7).caps(ORIGINAL | {"params": 10.0})
    assert cap.most == 7.0


def test_no_budget_and_no_cache_are_refused() -> None:
    with pytest.raises(UserError, match="no budget"):
        Budget()
    with pytest.raises(UserError, match="keeps none"):
        Budget(kv_cache=0.5).caps(ORIGINAL | {"kv_cache": 0.0})
