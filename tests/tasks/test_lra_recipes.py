"""The published settings of LRA are what the notes and the paper say, and the peer and the lean form follow from
them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from manyheads.arch.count import params
from manyheads.experiments.long_range_recipes import PUBLISHED, SMOKE, softmax
from manyheads.paper import rows as paper
from manyheads.spec.parts import Softmax
from manyheads.spec.recipe import Recipe
from manyheads.spec.schedule import beta1, factor
from manyheads.tasks import check, from_dict, to_dict

# vocabulary, tokens, classes, batch, warm-up, steps, evaluation every, training samples, parameters of (2,2), (1,4),
# peer
TABLE = {
    "listops": (32, 2048, 10, 32, 1000, 5_000, 50, 96_000, 209_942, 193_046, 209_802),
    "text": (512, 4096, 2, 32, 8000, 20_000, 500, 25_000, 370_702, 353_806, 370_562),
    "retrieval": (512, 4096, 2, 32, 800, 30_000, 300, 147_086, 395_278, 378_382, 395_138),
    "image": (512, 1024, 10, 256, 175, 35_000, 175, 45_000, 175_126, 158_230, 174_986),
    "pathfinder": (512, 1024, 2, 256, 312, 62_400, 312, 160_000, 174_094, 157_198, 173_954),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_published_setting_is_the_published_one(name: str) -> None:
    entry = PUBLISHED[name]
    vocab, tokens, classes, batch, warmup, steps, every, samples, original, lean, peer = TABLE[name]
    embed, head = entry.arch.embed, entry.arch.head
    assert (embed.vocab, entry.arch.stages[0].tokens, head.classes) == (vocab, tokens, classes)
    recipe = entry.recipe
    assert (recipe.batch, recipe.basis.amount, recipe.evaluate_every, entry.task.train) == (
        batch,
        steps,
        every,
        samples,
    )
    assert (recipe.lr, recipe.eps, recipe.weight_decay, recipe.clip) == (1e-4, 1e-6, 0.0, 0.0)
    assert (recipe.rates.dropout, recipe.rates.attention) == (0.1, 0.1)
    assert [params(arch).total for arch in (entry.arch, entry.lean, softmax(entry.arch))] == [original, lean, peer]
    check(entry.task, entry.arch)
    check(entry.task, entry.lean)
    assert factor(recipe.schedule, 0.0) == pytest.approx(1 / 25)
    assert factor(recipe.schedule, warmup / steps) == pytest.approx(1.0)
    assert factor(recipe.schedule, 1.0) < 1e-5


@pytest.mark.parametrize("name", TABLE)
def test_beta1_does_not_cycle_unless_asked(name: str) -> None:
    entry = PUBLISHED[name]
    assert entry.recipe.betas[0] == 0.9
    assert all(beta1(entry.recipe.schedule, t / 10) is None for t in range(11))
    asked = entry.cycling.schedule
    peak = asked.warmup
    assert [beta1(asked, t) for t in (0.0, peak, 1.0)] == pytest.approx([0.95, 0.85, 0.95])
    assert [factor(asked, t / 10) for t in range(11)] == [factor(entry.recipe.schedule, t / 10) for t in range(11)]


@pytest.mark.parametrize("name", TABLE)
def test_published_accuracies_stand_beside_and_are_those_of_table_3(name: str) -> None:
    found = PUBLISHED[name].accuracy
    assert [found[role] for role in ("original", "lean")] == [
        paper.BY_ID[f"{name}/{role}"].scores["top1"] for role in ("original", "lean")
    ]
    assert found["lean"] < found["nystromformer"]  # the authors' own two layers of two heads were better


@pytest.mark.parametrize("entry", [*PUBLISHED.values(), *SMOKE.values()])
def test_an_entry_can_be_written_into_a_run(entry: object) -> None:
    assert Recipe.from_dict(entry.recipe.to_dict()) == entry.recipe  # type: ignore[attr-defined]
    assert from_dict(to_dict(entry.task)) == entry.task  # type: ignore[attr-defined]
    check(entry.task, entry.arch)  # type: ignore[attr-defined]


def test_the_peer_differs_in_how_it_mixes_tokens_and_in_nothing_else() -> None:
    arch = PUBLISHED["listops"].arch
    peer = softmax(arch)
    (layer,) = peer.stages[0].unit
    assert layer[0].op == replace(arch.stages[0].unit[0][0].op, mix=Softmax())
    assert layer[1] == arch.stages[0].unit[0][1]
    assert (peer.embed, peer.head, peer.stages[0].depth) == (arch.embed, arch.head, arch.stages[0].depth)
