"""Crammed BERT and the TinyStories GPT against plain implementations of their descriptions, weights both ways."""

from __future__ import annotations

import pytest
import torch

from manyheads.arch.families import crammed_bert, stories
from manyheads.models.bert import CrammedBert
from manyheads.spec.parts import Classify, Norm

from . import plain_maps
from .harness import agree
from .hf import tokens
from .plain import Crammed, Stories

HEADS = [(3, 16), (5, 10)]  # inner 48 and 50: the width of this Crammed BERT, and not
CLASSES = Classify(3, "class", Norm(eps=1e-12), hidden=56, act="tanh")


@pytest.mark.parametrize(("heads", "head_dim"), HEADS)
@pytest.mark.parametrize("case", ["all", "sparse", "padded", "classify", "classify_padded"])
def test_crammed_bert_equals_its_description(case: str, heads: int, head_dim: int) -> None:
    """All tokens, chosen tokens only, padding, and classes from the first token."""
    classify, pad = case.startswith("classify"), "right" if case.endswith("padded") else ""
    head = CLASSES if classify else None
    arch = crammed_bert(48, 2, heads, head_dim, 40, vocab=97, tokens=16, head=head)
    ids, real = tokens(97, 2, 12, pad)
    mask = real if pad else None
    at = torch.tensor([[0, 3, 11], [7, 2, 2]]) if case == "sparse" else None
    rows = real if case == "padded" else slice(None)

    def ours(model: CrammedBert) -> torch.Tensor:
        model.embed.sinusoid.reset()  # the harness has randomised this table too
        return model(ids, mask, at)[rows]

    twin = Crammed(97, 48, 2, heads, head_dim, 80, 3 if classify else 0, 56)
    name = "_".join(
        filter(None, ("crammed_bert", case.removeprefix("all"), "" if heads == 3 else f"{heads}x{head_dim}"))
    )
    agree(
        name,
        "plain implementation",
        arch,
        twin,
        plain_maps.crammed(arch),
        ours,
        lambda model: model(ids, mask, at)[rows],
    )


@pytest.mark.parametrize(("heads", "head_dim"), HEADS)
def test_tinystories_gpt_equals_its_description(heads: int, head_dim: int) -> None:
    """Heads that do not fill the width, as the original's 12 x 42 in 512, included."""
    arch = stories(52, 2, heads, head_dim, 208, vocab=97, tokens=12)
    ids, _ = tokens(97, 2, 12)
    run = lambda model: model(ids)  # noqa: E731
    twin = Stories(97, 12, 52, 2, heads, head_dim, 208)
    name = "gpt2_tinystories" + ("" if heads == 3 else f"_{heads}x{head_dim}")
    agree(name, "plain implementation", arch, twin, plain_maps.stories(arch), run, run)
