"""Our families keep the promises that timm's own tests check, or refuse with the reason."""

from __future__ import annotations

import pytest

from manyheads.spec.errors import UserError

from .kept import keep

pytest.importorskip("timm", reason="timm is in the vision extra")
timm_checks = pytest.importorskip("tests.interop.timm_checks", reason="timm is in the vision extra")

# all checks of ViT that take little time, and of the other families those that depend on the family most, are quick
SLOW = ("compiled", "exported", "features_by_hooks")
FAMILIAR = ("head_apart", "intermediates", "other_size", "pruned")
# check -> why every family refuses it
REFUSED = {
    "dynamic_size": "takes images of one size",
    "other_patches": "patches of this model stay as they are",
    "scripted": "cannot compile a manyheads model",
}


def cases() -> list[object]:
    """Every family with every check."""
    rows = []
    for name in timm_checks.FAMILIES:
        for check in timm_checks.CHECKS:
            slow = check.__name__ in SLOW if name == "vit" else check.__name__ not in FAMILIAR
            rows.append(pytest.param(check, name, id=f"{name}-{check.__name__}", marks=[pytest.mark.slow] * slow))
    return rows


@pytest.mark.filterwarnings("ignore")  # of timm and torch
@pytest.mark.parametrize(("check", "name"), cases())
def test_the_promise_is_kept_or_refused_with_its_reason(check: timm_checks.Check, name: str) -> None:
    reason = REFUSED.get(check.__name__)
    if reason is None:
        check(name)
        keep("timm", check, name, "")
    else:
        with pytest.raises(UserError, match=reason) as error:
            check(name)
        keep("timm", check, name, str(error.value))
