"""Language models as modern modules: with padding compiled whole and exported at any length, cast, autocast, faked."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from manyheads.arch.redesign import redesign
from manyheads.models.build import build

from .language import ALL, BOTH_WAYS, CAUSAL, VOCAB

SHALLOW = {name: redesign(arch, depth=1) for name, arch in ALL.items()}
TRACED = ("gpt2", "qwen3", "bert", "crammed_bert")


def batch(length: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Random token ids and a padding mask."""
    ids = torch.randint(VOCAB, (2, length), generator=torch.Generator().manual_seed(seed))
    return ids, torch.arange(length).expand(2, length) < torch.tensor([[length], [length - 3]])


@pytest.mark.unchecked
@pytest.mark.parametrize("name", TRACED)
def test_compiles_whole_and_once_with_padding(name: str) -> None:
    model = build(SHALLOW[name], seed=0)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    for step in range(2):
        ids, mask = batch(seed=step)
        with torch.compiler.set_stance("fail_on_recompile" if step else "default"):
            out = compiled(ids, mask)
        torch.testing.assert_close(out, model(ids, mask))
        out.sum().backward()


@pytest.mark.unchecked
@pytest.mark.parametrize("name", TRACED)
def test_exports_at_any_length(name: str) -> None:
    model = build(SHALLOW[name], seed=0).eval()
    ids, mask = batch()
    length = torch.export.Dim("tokens", max=16)
    program = torch.export.export(model, (ids, mask), dynamic_shapes={"ids": {1: length}, "mask": {1: length}}).module()
    for tokens in (12, 7, 16):
        ids, mask = batch(tokens)
        torch.testing.assert_close(program(ids, mask), model(ids, mask))


@pytest.mark.unchecked
@pytest.mark.parametrize("name", BOTH_WAYS)
def test_sparse_prediction_compiles_whole(name: str) -> None:
    model = build(SHALLOW[name], seed=0).eval()
    ids, mask = batch()
    at = torch.tensor([[0, 3, 11], [7, 2, 2]])
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(ids, mask, at=at), model(ids, mask, at=at))


@pytest.mark.parametrize("name", ["llama", "crammed_bert"])
def test_a_cast_leaves_no_rounding_in_the_tables(name: str) -> None:
    """Up to float64 from float32, or through bfloat16 and back: the numbers are those of the last precision."""
    exact = build(ALL[name]).double()
    table = exact.rotary[0].table if name == "llama" else exact.embed.sinusoid.table
    again = build(ALL[name]).bfloat16().double()
    other = again.rotary[0].table if name == "llama" else again.embed.sinusoid.table
    assert torch.equal(table, other)
    squares = table.square().sum(dim=1) if name == "llama" else table.unflatten(1, (-1, 2)).square().sum(dim=2)
    assert (squares - 1).abs().max() < 1e-15  # cosine and sine, to double's last digit


@pytest.mark.parametrize("name", ALL)
def test_autocast_computes_in_bfloat16(name: str) -> None:
    model = build(ALL[name], seed=0)
    ids, mask = batch()
    with warnings.catch_warnings(), torch.autocast("cpu", torch.bfloat16):
        warnings.simplefilter("error")  # such as a norm that falls back to a slow path
        out = model(ids, mask)
        out.float().square().sum().backward()
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), model(ids, mask), rtol=0.1, atol=0.01)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", [*CAUSAL, *BOTH_WAYS])
def test_runs_on_fake_tensors(name: str) -> None:
    """As memory trackers run it: token ids that cannot be read are not checked."""
    model = build(ALL[name])
    with FakeTensorMode(allow_non_fake_inputs=True):
        ids = torch.zeros(2, 12, dtype=torch.int64)
        assert model(ids, torch.ones(2, 12, dtype=torch.bool)).shape == (2, 12, VOCAB)
