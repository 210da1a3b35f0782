"""The loss over a vocabulary is plain cross-entropy: value, gradients, what does not count, and what it never holds."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from manyheads.models.build import build
from manyheads.nn.loss import vocabulary_loss
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Lm
from tests.models.tiny import ORIGINALS, inputs

GPU = pytest.mark.gpu


def case(rows: int, width: int, vocab: int, dtype: torch.dtype, *, bias: bool) -> tuple[Tensor, ...]:
    """Tokens, table, targets (a fifth of them does not count), bias."""
    draw = torch.Generator().manual_seed(rows)
    x, table = (torch.randn(n, width, generator=draw, dtype=dtype) for n in (rows, vocab))
    targets = torch.randint(0, vocab, (rows,), generator=draw)
    targets[::5] = -100
    return x, table, targets, *([torch.randn(vocab, generator=draw, dtype=dtype)] if bias else [])


def plain(x: Tensor, table: Tensor, targets: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.cross_entropy(F.linear(x, table, bias), targets, ignore_index=-100)


def results(loss: object, x: Tensor, table: Tensor, targets: Tensor, *bias: Tensor) -> list[Tensor]:
    """Value and gradients of three times the loss, so that the gradient handed in counts."""
    given = [t.detach().clone().requires_grad_() for t in (x, table, *bias)]
    value = loss(given[0], given[1], targets, *given[2:])
    return [value.detach(), *torch.autograd.grad(3 * value, given)]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("rows", [None, 1, 7, 64])
def test_value_and_gradients_are_those_of_cross_entropy(bias: bool, rows: int | None) -> None:
    given = case(50, 12, 97, torch.float64, bias=bias)
    ours = results(lambda *t: vocabulary_loss(*t, rows=rows), *given)
    for a, b in zip(ours, results(plain, *given), strict=True):
        torch.testing.assert_close(a, b.to(a.dtype), rtol=1e-10, atol=1e-12)


def test_under_autocast_the_gradient_of_the_table_is_summed_in_float32() -> None:
    given = case(512, 32, 300, torch.float32, bias=False)
    with torch.autocast("cpu", torch.bfloat16):
        value, dx, dtable = results(lambda *t: vocabulary_loss(*t, rows=64), *given)
    expected = results(plain, *(t.double() if t.is_floating_point() else t for t in given))
    assert (dx.dtype, dtable.dtype, value.dtype) == (torch.float32,) * 3
    for a, b in zip((value, dx, dtable), expected, strict=True):
        assert (a - b).abs().max() < 2e-2 * b.abs().max()


def test_nothing_that_counts_is_a_loss_of_zero_and_not_nan() -> None:
    x, table, _ = case(4, 8, 11, torch.float32, bias=False)
    value, dx, dtable = results(vocabulary_loss, x, table, torch.full((4,), -100))
    assert (value, dx.abs().sum(), dtable.abs().sum()) == (0, 0, 0)


@pytest.mark.unchecked
def test_it_compiles_into_one_graph() -> None:
    given = case(50, 12, 97, torch.float32, bias=True)
    fast = torch.compile(vocabulary_loss, fullgraph=True, backend="aot_eager")
    for a, b in zip(results(fast, *given), results(vocabulary_loss, *given), strict=True):
        torch.testing.assert_close(a, b)


SCALED = replace(ORIGINALS["gpt2_tinystories"], head=Lm(False, True, scale=3.0))


@pytest.mark.parametrize("name", ["gpt2", "gpt2_tinystories", "llama", "gemma2", "scaled", "bert", "crammed_bert"])
def test_a_model_gives_the_loss_of_its_own_logits(name: str) -> None:
    arch = ORIGINALS.get(name) or SCALED
    model = build(arch, seed=0).double().eval()
    ids = inputs(arch)[0]
    logits = model(ids)
    targets = torch.randint(0, logits.shape[-1], ids.shape, generator=torch.Generator().manual_seed(1))
    targets[0, :3] = -100
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(model(ids, targets=targets), expected.to(torch.float64), rtol=1e-10, atol=0)


def test_targets_that_do_not_fit_are_refused_with_their_numbers() -> None:
    x, table, targets = case(10, 8, 11, torch.float32, bias=False)
    with pytest.raises(UserError, match=r"shape \(9,\).*shape \(10,\)"):
        vocabulary_loss(x, table, targets[:9])
    with pytest.raises(UserError, match="to 11; this model's vocabulary is 0 to 10"):
        vocabulary_loss(x, table, torch.full((10,), 11))
    with pytest.raises(UserError, match=r"torch\.float32"):
        vocabulary_loss(x, table, targets.float())


def rows_in_place(device: str, dtype: torch.dtype, limit: float) -> None:
    """The kernel beside the formula: odd vocabulary, more than one block of columns, rows that do not count."""
    from manyheads.nn.loss_kernel import rows_on_gpu

    for vocab, extra in ((37, 0), (37, 27), (5000, 0), (8193, 0), (9001, 23)):
        logits = torch.randn(6, vocab, generator=torch.Generator().manual_seed(vocab)).mul(4).to(dtype)
        logits[1, 5] = logits[4, -1] = float("-inf")
        targets, share = torch.tensor([0, vocab - 1, -100, 3, 3, 7]), torch.tensor(0.2)
        wide = logits.double().requires_grad_()
        expected = F.cross_entropy(wide, targets, reduction="sum") * 0.2
        (slope,) = torch.autograd.grad(expected, wide)
        filled = F.pad(logits, (0, extra), value=9.0)
        here = filled.to(device)
        untouched = rows_on_gpu(here, targets.to(device), share.to(device), False, vocab)
        assert torch.equal(here.cpu(), filled)
        found = rows_on_gpu(here, targets.to(device), share.to(device), True, vocab)
        assert abs(found.item() - expected.item()) < limit * expected.item()
        assert untouched.item() == found.item()
        assert (here[:, :vocab].double().cpu() - slope).abs().max() < limit * slope.abs().max()
        assert (here[:, vocab:] == 0).all()


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton comes with PyTorch for CUDA only")
def test_the_kernel_is_its_formula_when_interpreted() -> None:
    """Triton decides at import whether to interpret, hence a process of its own."""
    root = Path(__file__).resolve().parents[2]
    env = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root}/src:{root}"}
    subprocess.run([sys.executable, "-P", str(Path(__file__))], env=env, check=True)


@GPU
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_the_kernel_is_its_formula(dtype: torch.dtype, limit: float) -> None:
    rows_in_place("cuda", dtype, limit)


@GPU
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("vocab", [50257, 8192, 1001])
def test_a_gpu_fills_odd_vocabularies_and_nothing_shows(vocab: int, bias: bool) -> None:
    given = [t.cuda() for t in case(300, 64, vocab, torch.float32, bias=bias)]
    for a, b in zip(results(vocabulary_loss, *given), results(plain, *given), strict=True):
        assert a.shape == b.shape
        assert (a - b).abs().max() <= 1e-4 * b.abs().max()


@pytest.mark.unchecked
@GPU
@pytest.mark.parametrize("fast", [False, True])
def test_on_a_gpu_logits_are_never_held_whole(fast: bool) -> None:
    rows, vocab = 2**15, 50304
    x = torch.randn(rows, 64, device="cuda", requires_grad=True)
    table = (torch.randn(vocab, 64, device="cuda") / 8).requires_grad_()
    targets = torch.randint(0, vocab, (rows,), device="cuda")
    loss_of = torch.compile(vocabulary_loss) if fast else vocabulary_loss
    torch.cuda.reset_peak_memory_stats()
    with torch.autocast("cuda", torch.bfloat16):
        value = loss_of(x, table, targets, rows=2**12)
    value.backward()
    assert torch.cuda.max_memory_allocated() < rows * vocab * 2 / 2
    with torch.no_grad():
        expected = F.cross_entropy(x[:64] @ table.T, targets[:64])
        assert abs(vocabulary_loss(x[:64], table, targets[:64]).item() - expected.item()) < 1e-3
    assert x.grad.isfinite().all()
    assert table.grad.isfinite().all()


if __name__ == "__main__":
    rows_in_place("cpu", torch.float32, 1e-5)
    rows_in_place("cpu", torch.bfloat16, 1e-2)
