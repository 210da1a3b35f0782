"""The package as a person explores it: its names, models by name, results that print short."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch

import manyheads
from manyheads.arch import zoo
from manyheads.spec.errors import UserError

SHORT = 1000  # characters that a person reads without scrolling


def test_the_public_names_are_listed_without_torch() -> None:
    code = "import sys, manyheads; print(*dir(manyheads)); print({'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, heavy = done.stdout.splitlines()
    assert set(names.split()) == {*manyheads.__all__, "__version__"}
    assert heavy == "set()"
    for name in names.split():
        assert getattr(manyheads, name) is getattr(manyheads, name)


def test_a_redesign_by_name_imports_no_torch() -> None:
    code = "import sys; from manyheads import redesign; redesign('vit_b', depth=7); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_name_stands_for_its_record() -> None:
    original = zoo.get("vit_b")
    lean = manyheads.redesign("vit_b", depth=7, heads=16)
    assert (
        lean == manyheads.redesign(original, depth=7, heads=16) == manyheads.redesign(arch="vit_b", depth=7, heads=16)
    )
    assert manyheads.cost("vit_b") == manyheads.cost(original)
    assert manyheads.controls("vit_b", lean).keys() == manyheads.controls(original, lean).keys()
    assert manyheads.build("vit_ti", device="meta").arch == zoo.get("vit_ti")
    by_name, by_record = manyheads.plan("vit_b", params="0.5x"), manyheads.plan(original, manyheads.Budget(params=0.5))
    assert [one.arch for one in by_name.designs] == [one.arch for one in by_record.designs]
    with pytest.raises(UserError, match="did you mean vit_b"):
        manyheads.redesign("vit_bb", depth=7)


@pytest.mark.parametrize("model", [None, 3, 1.5, b"vit_b", ["vit_b"], {"name": "vit_b"}])
@pytest.mark.parametrize("function", ["redesign", "plan", "cost", "build", "controls"])
def test_what_is_no_model_is_refused(function: str, model: Any) -> None:
    with pytest.raises(UserError, match=r"the model is .*; write an Arch or a name"):
        getattr(manyheads, function)(*([model, "vit_b"] if function == "controls" else [model]))


@pytest.mark.parametrize("seed", ["x", 1.5, -1, True, 2**63])
def test_a_model_is_built_from_a_seed_that_is_a_number(seed: Any) -> None:
    with pytest.raises(UserError, match="seed is "):
        manyheads.build("vit_ti", seed=seed)


def test_a_timm_name_stands_for_its_record() -> None:
    pytest.importorskip("timm", reason="in the vision extra")
    assert manyheads.cost("timm:vit_tiny_patch16_224").params.total == manyheads.cost("vit_ti").params.total


def test_a_budget_is_stated_once() -> None:
    with pytest.raises(UserError, match="two budgets"):
        manyheads.plan("vit_b", manyheads.Budget(params=0.5), flops=0.5)
    with pytest.raises(UserError, match="no budget was given"):
        manyheads.plan("vit_b")


def test_large_results_print_short() -> None:
    plan = manyheads.plan("vit_b", params="0.5x")
    assert len(repr(plan)) < SHORT
    assert len(str(plan).splitlines()) == 1 + len(plan.designs)
    assert "parameters <= 43.28 M (0.5x)" in str(plan)
    assert len(repr(plan.front)) < SHORT
    assert len(repr(plan.designs[0])) < SHORT
    arms = manyheads.controls("vit_b", plan.designs[0].arch)
    assert all(len(repr(arm)) < SHORT for arm in arms.values())
    assert len(repr(manyheads.cost("vit_b"))) < SHORT
    sites = manyheads.probe(manyheads.build("vit_ti", seed=0), torch.randn(2, 3, 224, 224))
    assert len(sites) == 12
    assert len(repr(sites)) < SHORT
    assert "12 of softmax attention, kappa" in repr(sites)


def test_a_plan_that_nothing_fits_says_why() -> None:
    assert str(manyheads.plan("vit_b", params="1M")).startswith("no redesign fits parameters <= 1.00 M")


def test_a_notebook_shows_tables() -> None:
    plan = manyheads.plan("vit_ti", params="0.5x")
    shown = plan._repr_html_()
    assert shown.count("<tr>") == 2 + len(plan.designs)  # titles, the original, the designs
    assert "<td>86,567,656</td>" in manyheads.cost("vit_b")._repr_html_()
    sites = manyheads.probe(manyheads.build("vit_ti", seed=0), torch.randn(2, 3, 224, 224))
    assert sites._repr_html_().count("<tr>") == 13
    assert "parameters &lt;= " in shown
