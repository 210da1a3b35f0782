"""Our families keep the promises that transformers' own tests check, or refuse with the reason."""

from __future__ import annotations

import pytest

from manyheads.spec.errors import UserError

pytest.importorskip("transformers", reason="transformers is in the hf extra")
hf_checks = pytest.importorskip("tests.interop.hf_checks", reason="transformers is in the hf extra")
generation = pytest.importorskip("tests.interop.hf_generation_checks", reason="transformers is in the hf extra")

QUICK = ("gpt2", "llama", "bert", "nystromformer", "vit")  # the others, and compilation, are slow
NO_MAPS, NO_FLEX = "which never forms them", "flex_attention computes softmax attention over all tokens"
# (check, family) -> why it is refused
REFUSED = {
    (check, name): reason
    for name in ("xcit", "volo", "davit", "nystromformer")
    for check, reason in (("attention_maps", NO_MAPS), ("flex_equals_sdpa", NO_FLEX))
} | {("full_mask", "nystromformer"): "Nyström attention never forms that map"}


def cases() -> list[object]:
    """Every family with every check that applies to it."""
    rows = []
    for name in hf_checks.FAMILIES:
        generates = generation.OF_GENERATION * (name in hf_checks.CAUSAL)
        for check in (*hf_checks.applicable(name), *generates):
            slow = name not in QUICK or (check in (hf_checks.compiles_whole, generation.flexible) and name != "gpt2")
            rows.append(pytest.param(check, name, id=f"{name}-{check.__name__}", marks=[pytest.mark.slow] * slow))
    return rows


@pytest.mark.filterwarnings("ignore")  # of transformers and torch
@pytest.mark.parametrize(("check", "name"), cases())
def test_the_promise_is_kept_or_refused_with_its_reason(check: hf_checks.Check, name: str) -> None:
    reason = REFUSED.get((check.__name__, name))
    if reason is None:
        check(name)
    else:
        with pytest.raises(UserError, match=reason):
            check(name)
