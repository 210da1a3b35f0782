"""kappa is right to 1e-4 where it says so, and says so where it is not."""

from __future__ import annotations

import inspect
import math

import pytest
import torch
from torch import Tensor

from manyheads.conditioning.singular_values import extreme_vectors, squarings
from manyheads.conditioning.spectrum import LIMITS, edges, spectrum
from manyheads.spec.errors import UserError

METHODS = ("eigen", "products", "exact")
SMALL = [(16, 40), (40, 16), (33, 33), (197, 64), (65, 192)]
LARGE = [(197, 768), (512, 1024), (1024, 512), (1024, 4096)]
KAPPAS = (1.0, 1.5, 3.0, 1e2, 1e4, 1e6, 1e7, 1e8, 1e9)
SHAPES = ("geometric", "linear", "halves", "one small", "one large", "near the edges")


def singular_values(size: int, kappa: float, shape: str) -> Tensor:
    """Singular values from 1 down to 1 / kappa; the last shape has half of them a hair from each end."""
    x = torch.linspace(0, 1, size, dtype=torch.float64)
    s = {
        "geometric": kappa**-x,
        "linear": 1 - (1 - 1 / kappa) * x,
        "halves": torch.where(x < 0.5, 1.0, 1 / kappa),
        "one small": torch.where(x < 1, 1.0, 1 / kappa),
        "one large": torch.where(x > 0, 1 / kappa, 1.0),
        "near the edges": torch.where(x < 0.5, 1 - 1e-4, (1 + 1e-4) / kappa),
    }[shape]
    s[0], s[-1] = 1.0, 1 / kappa
    return s


def made(tokens: int, inner: int, kappa: float, shape: str, batch: int = 2, seed: int = 0) -> Tensor:
    """Matrices with these singular values and random singular vectors."""
    draw, size = torch.Generator().manual_seed(seed), min(tokens, inner)
    u, v = (
        torch.linalg.qr(torch.randn(batch, rows, size, generator=draw, dtype=torch.float64)).Q
        for rows in (tokens, inner)
    )
    return (u * singular_values(size, kappa, shape)) @ v.mT


def truth(matrices: Tensor, centred: bool = False) -> tuple[Tensor, Tensor]:
    """Largest and smallest singular value by float64 SVD."""
    matrices = matrices.double()
    if centred:
        matrices = matrices - matrices.mean(-2, keepdim=True)
    values = torch.linalg.svdvals(matrices)
    tokens, inner = matrices.shape[-2:]
    return values[..., 0], values[..., min(tokens - centred, inner) - 1]


def agree(matrices: Tensor) -> None:
    """Where it says reliable, kappa is right to 1e-4; up to 1e6 it says reliable; beyond its limit it does not."""
    ends = {"": truth(matrices), "centred_": truth(matrices, centred=True)}
    for method in METHODS:
        found = spectrum(matrices, method=method)
        for prefix, (top, bottom) in ends.items():
            kappa, reliable = getattr(found, f"{prefix}kappa"), getattr(found, f"{prefix}reliable")
            error = (kappa / (top / bottom) - 1).abs()
            assert not kappa.isnan().any()
            assert (error[reliable] <= 1.02e-4).all(), (method, prefix, error, kappa)
            assert reliable[top / bottom <= 1e6 * 1.001].all(), (method, prefix, kappa)
            assert not reliable[top / bottom > 2 * LIMITS[method]].any()
            if reliable.all():
                assert getattr(found, f"{prefix}sigma_max").allclose(top, rtol=1e-4)
                assert getattr(found, f"{prefix}log_kappa").allclose((top / bottom).log(), atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("tokens", "inner"), SMALL)
def test_every_method_agrees_with_float64_svd(tokens: int, inner: int, shape: str) -> None:
    for kappa in KAPPAS:
        agree(made(tokens, inner, kappa, shape))


@pytest.mark.slow
@pytest.mark.parametrize(("tokens", "inner"), LARGE)
def test_every_method_agrees_on_large_shapes(tokens: int, inner: int) -> None:
    for shape in SHAPES if tokens < 500 else ("geometric", "linear"):
        for kappa in (1.5, 1e3, 1e6, 1e9):
            agree(made(tokens, inner, kappa, shape, batch=1))


@pytest.mark.parametrize("method", METHODS)
def test_float32_gaussian_blocks(method: str) -> None:
    draw = torch.Generator().manual_seed(1)
    for tokens, inner in ((197, 192), (197, 256), (64, 256)):
        matrices = torch.randn(3, tokens, inner, generator=draw)
        top, bottom = truth(matrices)
        assert spectrum(matrices, method=method).kappa.allclose(top / bottom, rtol=1e-6 if tokens < 100 else 1e-5)
        assert edges(matrices, method=method).kappa.allclose(top / bottom, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("tokens", "inner"), [(48, 96), (96, 48), (40, 40), (41, 40)])
def test_a_huge_mean_costs_the_centred_values_nothing(tokens: int, inner: int, method: str) -> None:
    draw = torch.Generator().manual_seed(2)
    plain = torch.randn(2, tokens, inner, generator=draw, dtype=torch.float64)
    shifted = plain + 1e5 * torch.randn(2, 1, inner, generator=draw, dtype=torch.float64)
    top, bottom = truth(plain, centred=True)
    found = spectrum(shifted, method=method)
    assert found.centred_kappa.allclose(top / bottom, rtol=1e-6)
    assert found.centred_reliable.all()
    raw = torch.div(*truth(shifted))
    assert (found.kappa / raw - 1)[found.reliable].abs().le(1e-4).all()
    assert found.reliable[raw <= 1e6].all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("tokens", "inner"), [(24, 50), (50, 24), (30, 30), (197, 256)])
def test_a_matrix_without_full_rank_has_infinite_kappa_and_says_so(tokens: int, inner: int, method: str) -> None:
    draw = torch.Generator().manual_seed(3)
    size = min(tokens, inner)
    full = torch.randn(4, tokens, inner, generator=draw, dtype=torch.float64)
    twice = full.clone()
    twice[:, :, 1] = twice[:, :, 0]
    twice[:, 1] = twice[:, 0]
    thin = full[..., : size - 3] @ torch.randn(4, size - 3, inner, generator=draw, dtype=torch.float64)
    for matrices in (twice if tokens != inner else thin, thin, torch.ones_like(full), torch.zeros_like(full)):
        mixed = torch.cat([matrices, full])  # a bad matrix does not touch its neighbours
        found = spectrum(mixed, method=method, ranks=True)
        assert found.kappa[:4].isinf().all()
        assert found.log_kappa[:4].isinf().all()
        assert (found.sigma_min[:4] == 0).all()
        assert found.reliable.tolist() == [False] * 4 + [True] * 4
        assert found.kappa[4:].allclose(torch.div(*truth(full)), rtol=1e-4)
        for value in vars(found).values():
            assert not value.double().isnan().any()
    found = spectrum(thin, method=method, ranks=True)
    assert found.numerical_rank is not None
    assert (found.numerical_rank == size - 3).all()
    zero = spectrum(torch.zeros(2, tokens, inner), method=method, ranks=True)
    assert zero.sigma_max.tolist() == zero.stable_rank.tolist() == [0, 0]
    assert zero.effective_rank is not None
    assert zero.effective_rank.tolist() == [0, 0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(("tokens", "inner"), [(20, 30), (30, 20)])
def test_a_matrix_that_is_not_finite_says_so_alone(method: str, bad: float, tokens: int, inner: int) -> None:
    matrices = torch.randn(3, tokens, inner, generator=torch.Generator().manual_seed(4))
    matrices[1, 2, 3] = bad
    found = spectrum(matrices, method=method, ranks=True)
    assert found.kappa.isnan().tolist() == found.centred_kappa.isnan().tolist() == [False, True, False]
    assert found.reliable.tolist() == found.centred_reliable.tolist() == [True, False, True]
    assert edges(matrices, method=method).reliable.tolist() == [True, False, True]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("tokens", "inner"), [(30, 50), (60, 24), (24, 24)])
def test_masked_tokens_are_as_if_they_were_not_there(tokens: int, inner: int, method: str) -> None:
    draw = torch.Generator().manual_seed(5)
    matrices = torch.randn(6, tokens, inner, generator=draw) + 3 * torch.randn(6, 1, inner, generator=draw)
    mask = torch.rand(6, tokens, generator=draw) < torch.linspace(0.2, 1, 6)[:, None]
    mask[-1] = True
    matrices[~mask] = math.nan  # what padding holds does not matter
    found = spectrum(matrices, mask=mask, method=method, ranks=True)
    for i in range(6):
        alone = spectrum(matrices[i][mask[i]], method="exact", ranks=True)
        for field, value in vars(alone).items():
            assert torch.isclose(getattr(found, field)[i].double(), value.double(), rtol=1e-5), (field, i)


@pytest.mark.parametrize("method", METHODS)
def test_one_token_one_column_and_no_token(method: str) -> None:
    one = spectrum(torch.tensor([[3.0, 4.0]]), method=method)
    assert (one.kappa.item(), one.sigma_max.item()) == (1.0, 5.0)
    assert one.centred_kappa.isinf()  # nothing is left to have a smallest value
    assert not one.centred_reliable
    column = spectrum(torch.tensor([[3.0], [4.0]]), method=method)
    assert column.kappa.item() == column.centred_kappa.item() == 1.0
    none = spectrum(torch.ones(1, 3, 2), mask=torch.zeros(1, 3, dtype=torch.bool), method=method)
    assert none.kappa.isinf()
    assert not none.reliable


@pytest.mark.parametrize("method", METHODS)
def test_batch_shape_device_and_input_are_kept(method: str) -> None:
    matrices = torch.randn(2, 3, 5, 20, 30, requires_grad=True)
    before = matrices.clone()
    found = spectrum(matrices, method=method)
    assert found.kappa.shape == found.centred_reliable.shape == (2, 3, 5)
    assert spectrum(matrices[0, 0, 0], method=method).kappa.shape == ()
    assert spectrum(matrices[:0], method=method).kappa.shape == (0, 3, 5)
    assert torch.equal(matrices, before)
    assert not found.kappa.requires_grad
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        low = matrices.detach().to(dtype)
        assert spectrum(low, method=method).kappa.allclose(torch.div(*truth(low)), rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_scale_is_no_matter(method: str, scale: float) -> None:
    matrices = torch.randn(2, 12, 20, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    assert spectrum(matrices * scale, method=method).kappa.allclose(spectrum(matrices, method=method).kappa, rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_ranks_of_known_spectra(method: str) -> None:
    s = singular_values(32, 10.0, "linear")
    found = spectrum(made(32, 48, 10.0, "linear"), method=method, ranks=True)
    part = s.square() / s.square().sum()
    assert found.stable_rank.allclose(s.square().sum(), rtol=1e-4)
    assert found.participation.allclose(1 / part.square().sum())
    assert found.effective_rank is not None
    assert found.effective_rank.allclose((-(part * part.log()).sum()).exp())
    assert found.numerical_rank is not None
    assert found.numerical_rank.tolist() == [32, 32]
    flat = spectrum(made(32, 48, 1.0, "linear"), method=method, ranks=True)
    assert flat.effective_rank is not None
    assert flat.effective_rank.allclose(torch.tensor(32.0, dtype=torch.float64))
    assert spectrum(made(32, 48, 1.0, "linear"), method=method).effective_rank is None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_reliable_matrix_of_float64_has_full_numerical_rank(method: str, shape: str) -> None:
    for kappa in (1e4, 1e6, 1e8, 1e10):
        matrices = made(24, 40, kappa, shape)
        found = spectrum(matrices, method=method, ranks=True)
        exact = spectrum(matrices, exact=True, ranks=True)
        assert found.numerical_rank is not None
        assert exact.numerical_rank is not None
        assert (exact.numerical_rank == 24).all()
        assert found.reliable.all() or method == "products"
        assert (found.numerical_rank[found.reliable] == 24).all()


def test_same_numbers_twice_and_the_same_alone_as_in_a_batch() -> None:
    matrices = made(40, 64, 1e3, "geometric", batch=4)
    for method in METHODS:
        first, second = spectrum(matrices, method=method), spectrum(matrices, method=method)
        assert torch.equal(first.kappa, second.kappa)
        assert spectrum(matrices[1], method=method).kappa.allclose(first.kappa[1], rtol=1e-9)


def test_flat_spectra_get_more_squarings_in_larger_matrices() -> None:
    assert squarings(2) < squarings(197) <= squarings(4096) <= 14
    gram = torch.diag_embed(singular_values(128, 1.2, "near the edges")).square()[None]
    largest, smallest, definite = extreme_vectors(gram)
    assert definite.all()
    for vector, value in ((largest, 1.0), (smallest, 1 / 1.2**2)):
        assert abs((vector * (gram @ vector[..., None]).squeeze(-1)).sum().item() / value - 1) < 1e-4


@pytest.mark.parametrize(
    ("matrices", "mask", "method", "words"),
    [
        (torch.ones(3, dtype=torch.long), None, "auto", "tokens x inner"),
        (torch.ones(3, 4, dtype=torch.long), None, "auto", "real matrices"),
        (torch.ones(3, 4), None, "fast", "eigen, products, exact or auto"),
        (torch.ones(3, 4), torch.ones(4, dtype=torch.bool), "auto", r"torch.bool of \(3,\)"),
        (torch.ones(3, 0), None, "auto", "tokens x inner"),
    ],
)
def test_mistakes_are_told_in_a_sentence(matrices: Tensor, mask: Tensor | None, method: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        inspect.unwrap(spectrum)(matrices, mask=mask, method=method)


@pytest.mark.gpu
def test_on_cuda_products_is_the_default_and_never_waits() -> None:
    matrices = made(197, 768, 1e4, "geometric", batch=8).float().cuda()
    spectrum(matrices)
    torch.cuda.set_sync_debug_mode("error")
    try:
        found = spectrum(matrices)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    top, bottom = truth(matrices.cpu())
    assert found.kappa.cpu().allclose(top / bottom, rtol=1e-4)
    assert spectrum(matrices.cpu(), method="products").kappa.allclose(found.kappa.cpu(), rtol=1e-6)
