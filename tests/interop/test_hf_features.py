"""Models without a head, as transformers' AutoModel and as what a head is added to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from manyheads.arch.count import params
from manyheads.models.build import build
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Features, Norm, Pooler, Token
from tests.models.tiny import ORIGINALS, inputs

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
door = pytest.importorskip("manyheads.interop.hf", reason="transformers is in the hf extra")

HEADLESS = {name: arch for name, arch in ORIGINALS.items() if isinstance(arch.head, Features)}
CLIP = Pooler("class", Norm(eps=1e-5), 24, False)
TANH = Pooler("class", None, 32, act="tanh")


def batch(arch: Arch) -> dict[str, torch.Tensor]:
    """A batch by its keyword."""
    (x,) = inputs(arch, 2)
    return {"input_ids" if isinstance(arch.embed, Token) else "pixel_values": x}


@pytest.mark.parametrize("pooler", [None, CLIP, TANH], ids=["none", "clip", "tanh"])
@pytest.mark.parametrize("name", HEADLESS)
def test_a_folder_without_a_head_round_trips(name: str, pooler: Pooler | None, tmp_path: Path) -> None:
    """The same tokens, and the same vector where there is a pooler."""
    arch = replace(HEADLESS[name], head=replace(HEADLESS[name].head, pooler=pooler))
    twin = build(arch, seed=3).eval()
    door.export(twin, tmp_path)
    model, report = transformers.AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.config.record() == arch
    out = model.eval()(**batch(arch))
    with torch.no_grad():
        tokens = twin(*inputs(arch, 2))
        assert torch.equal(out.last_hidden_state, tokens)
        if pooler is not None:
            assert torch.equal(out.pooler_output, twin.head.pooled(tokens))
            assert out.pooler_output.shape == (2, pooler.out)
    assert ("pooler_output" in out) == (pooler is not None)


@pytest.mark.parametrize("pooler", [None, Pooler(), CLIP, TANH], ids=["none", "token", "clip", "tanh"])
@pytest.mark.parametrize("name", HEADLESS)
def test_a_pooler_is_counted_with_the_head(name: str, pooler: Pooler | None) -> None:
    arch = replace(HEADLESS[name], head=replace(HEADLESS[name].head, pooler=pooler))
    assert params(arch).total == sum(p.numel() for p in build(arch, device="meta").parameters())


def test_without_a_pooler_the_vector_is_refused() -> None:
    model = build(HEADLESS["bert_features"], seed=0)
    with pytest.raises(UserError, match="has no pooler: take the tokens, or their mean"):
        model.head.pooled(torch.zeros(1, 3, 32))


@pytest.mark.parametrize(
    ("name", "kind", "shape"),
    [
        ("bert_features", "AutoModelForMaskedLM", (2, 12, 50)),
        ("bert_features", "AutoModelForSequenceClassification", (2, 3)),
        ("vit_features", "AutoModelForImageClassification", (2, 3)),
    ],
)
def test_a_class_with_a_head_adds_it(name: str, kind: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    """As transformers does with a folder of its own: what was trained stays, what is new is drawn."""
    twin = build(HEADLESS[name], seed=3).eval()
    door.export(twin, tmp_path)
    model, report = getattr(transformers, kind).from_pretrained(tmp_path, num_labels=3, output_loading_info=True)
    assert all(".head." in key for key in report["missing_keys"])
    assert model.eval()(**batch(HEADLESS[name])).logits.shape == shape
    (x,) = inputs(HEADLESS[name], 2)
    with torch.no_grad():
        assert torch.equal(model.model.features(x), twin.features(x))


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (Features(pooler=Pooler("last")), "which is for text; write pool='class'"),
        (Features(pooler=Pooler(act="tanh")), "an activation and no linear map before it"),
    ],
)
def test_a_pooler_that_cannot_be_is_refused(head: Features, words: str) -> None:
    with pytest.raises(UserError, match=words):
        replace(HEADLESS["vit_features"], head=head)


def test_a_pooler_of_the_class_token_needs_one() -> None:
    arch = HEADLESS["vit_features"]
    bare = replace(arch.embed, class_tokens=0)
    stage = replace(arch.stages[0], tokens=16)
    with pytest.raises(UserError, match="no class token; leave the pooler out"):
        replace(arch, embed=bare, stages=(stage,), head=Features(pooler=Pooler()))
