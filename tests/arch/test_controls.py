"""Controls match what they say they match, within 1 %, for every pair of the paper and more."""

from __future__ import annotations

import pytest

from manyheads.arch import zoo
from manyheads.arch.controls import Control, controls, depths, head_dims, heads, inners, mlp_dims
from manyheads.arch.count import params
from manyheads.arch.redesign import policy_of, redesign
from manyheads.paper.audit import likely
from manyheads.paper.rows import BY_ID, PAIRS
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError


def pair(name: str) -> tuple[Arch, Arch]:
    """Original and lean of a row of the paper, by the likely readings."""
    return likely(BY_ID[f"{name}/original"]).arch, likely(BY_ID[f"{name}/lean"]).arch


OTHERS = {
    "llama": (zoo.get("llama_1b"), redesign(zoo.get("llama_1b"), depth=10, heads=48)),
    "llama_kv": (zoo.get("llama_1b"), redesign(zoo.get("llama_1b"), depth=10, heads=48, kv_heads=12)),
    "vit_ti": (zoo.get("vit_ti"), redesign(zoo.get("vit_ti"), depth=6, heads=6)),
}


@pytest.mark.parametrize("name", [*PAIRS, *OTHERS])
def test_controls(name: str) -> None:
    original, lean = OTHERS[name] if name in OTHERS else pair(name)
    arms = controls(original, lean)
    assert set(arms) == {
        "depth_only",
        "heads_only",
        "wide_heads",
        "mlp_matched",
        "params_matched",
        "fixed" if policy_of(original, lean) == "split" else "split",
    }
    for arm in arms.values():
        assert isinstance(arm, Control)
        assert abs(arm.residual) <= (0.02 if arm.name == "split" else 0.01)

    only = arms["depth_only"].arch
    assert (depths(only), mlp_dims(only)) == (depths(lean), mlp_dims(lean))
    assert (heads(only), head_dims(only)) == (heads(original), head_dims(original))

    only = arms["heads_only"].arch
    assert (depths(only), mlp_dims(only)) == (depths(original), mlp_dims(original))
    assert (heads(only), head_dims(only)) == (heads(lean), head_dims(lean))

    wide = arms["wide_heads"].arch
    assert heads(wide) == heads(original)
    assert depths(wide) == depths(lean)
    assert all(abs(a / b - 1) <= 0.01 for a, b in zip(inners(wide), inners(lean), strict=True))

    for matched in ("mlp_matched", "params_matched"):
        total = params(arms[matched].arch).total
        assert total / params(lean).total - 1 == pytest.approx(arms[matched].residual)
    assert depths(arms["params_matched"].arch) == depths(original)
    assert head_dims(arms["params_matched"].arch) == head_dims(original)
    assert all(stage.width % 8 == 0 for stage in arms["params_matched"].arch.stages)
    assert heads(arms["mlp_matched"].arch) == heads(original)


def test_the_control_that_nobody_ran_has_the_same_parameters() -> None:
    """Crammed BERT with 10 layers: 12 heads of 64 and 24 heads of 32 count alike, to the integer."""
    original, lean = pair("crammed_bert")
    arms = controls(original, lean)
    assert params(arms["depth_only"].arch).total == params(lean).total == 84_182_017
    assert arms["wide_heads"].same_as == "depth_only"
    assert arms["mlp_matched"].same_as == "depth_only"


def test_a_control_that_cannot_match_is_refused() -> None:
    original = zoo.get("vit_ti")
    with pytest.raises(UserError, match="wide_heads comes no closer"):
        controls(original, redesign(original, depth=6, heads=7, head_dim=10))
