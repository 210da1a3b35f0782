"""A recipe is plain data: read back exactly, wrong ones refused with what to write instead; the paper's is
expressible."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from manyheads.arch import zoo
from manyheads.experiments.recipes import TABLE6, TABLE6_LARGE, table6_task
from manyheads.spec.errors import UserError
from manyheads.spec.recipe import IMAGENET_IMAGES, Basis, Rates, Recipe
from manyheads.spec.schedule import Schedule, factor
from manyheads.tasks import check, from_dict, to_dict
from manyheads.train.budget import budget

FULL = Recipe(
    batch=64,
    basis=Basis("flops", 1e15),
    lr=3e-4,
    schedule=Schedule("one_cycle", 0.3, 0.04, 1e-5, (0.95, 0.85)),
    betas=(0.9, 0.98),
    decay="all",
    accumulate=4,
    ema=0.999,
    rates=Rates(0.1, 0.2, 0.3),
    precision="bf16",
    compile="off",
    deterministic=True,
    evaluate_every=0.25,
    probe_every=100,
)


@pytest.mark.parametrize("recipe", [Recipe(), FULL, TABLE6, TABLE6_LARGE])
def test_a_recipe_is_read_back_as_it_was_written(recipe: Recipe) -> None:
    written = json.dumps(recipe.to_dict())
    assert Recipe.from_dict(json.loads(written)) == recipe
    assert json.dumps(Recipe.from_dict(json.loads(written)).to_dict()) == written


def test_whole_numbers_and_fractions_are_one_recipe() -> None:
    assert Recipe.from_dict({"lr": 1, "basis": {"kind": "steps", "amount": 5}}) == Recipe(
        lr=1.0, basis=Basis("steps", 5.0)
    )
    assert json.dumps(Recipe(lr=1).to_dict()) == json.dumps(Recipe(lr=1.0).to_dict())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "object with the fields of Recipe"),
        ({"learningrate": 1.0}, "no field 'learningrate'"),
        ({"weight_deca": 1.0}, "did you mean weight_decay"),
        ({"lr": "fast"}, "recipe.lr is 'fast'; write a number"),
        ({"lr": 0}, "recipe.lr is 0.0; write a number above 0"),
        ({"lr": True}, "write a number"),
        ({"batch": 1.5}, "recipe.batch is 1.5; write a whole number"),
        ({"batch": 10, "accumulate": 4}, "write batch=8"),
        ({"betas": [0.9]}, "list of 2 numbers"),
        ({"betas": [0.9, 1.0]}, "two numbers below 1"),
        ({"basis": {"kind": "hours", "amount": 1}}, "recipe.basis.kind"),
        ({"basis": {"kind": "steps"}}, "recipe.basis lacks amount"),
        ({"basis": {"kind": "steps", "amount": 0}}, "trains nothing"),
        ({"schedule": {"kind": "cosin"}}, "did you mean cosine"),
        ({"schedule": {"warmup": 20}}, "fraction from 0 to 1"),
        ({"schedule": {"beta1": [0.9, 1.5]}}, "schedule.beta1"),
        ({"rates": {"dropout": 1.0}}, "recipe.rates.dropout is 1.0"),
        ({"precision": "fp8"}, "fp32"),
        ({"evaluate_every": 2.5}, "evaluate_every is 2.5"),
        ({"ema": 1}, "recipe.ema"),
        ({"deterministic": 1}, "true or false"),
    ],
)
def test_a_wrong_recipe_is_told_what_to_write(given: object, words: str) -> None:
    with pytest.raises(UserError) as caught:
        Recipe.from_dict(given)
    assert words in str(caught.value)


def test_the_papers_table_6_is_expressed_exactly() -> None:
    base, large = TABLE6, TABLE6_LARGE
    assert (base.batch, large.batch) == (1024, 512)
    assert replace(large, batch=1024) == base
    assert (base.lr, base.weight_decay, base.basis, base.rates.path) == (3e-3, 0.3, Basis("epochs", 300), 0.1)
    spend = budget(base, zoo.get("vit_b"), unit="images", per_sample=1, samples=IMAGENET_IMAGES)
    assert spend.steps == round(300 * IMAGENET_IMAGES / 1024)
    assert base.lr * factor(base.schedule, 0.0) == pytest.approx(1e-5)
    assert factor(base.schedule, 20 / 300) == 1.0
    assert factor(base.schedule, 1.0) == 0.0
    task = table6_task()
    assert (task.label_smoothing, task.augment.mixup, task.augment.cutmix) == (0.1, 0.8, 1.0)
    assert task.augment.rand is not None
    assert (task.augment.rand.magnitude, task.augment.rand.std) == (9, 0.5)
    assert from_dict(json.loads(json.dumps(to_dict(task)))) == task
    check(task, zoo.get("vit_b"))
