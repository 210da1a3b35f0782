"""The prediction for Gaussian blocks: near the samples for every shape, and not monotone in heads."""

from __future__ import annotations

import importlib.util
import math
import time
from pathlib import Path

import numpy as np
import pytest

from manyheads.conditioning.theory import (
    gaussian_bound,
    gaussian_edge,
    gaussian_log_kappa,
    peak_heads,
    ratio_for,
    sample_kappa,
)

# tokens 197, head_dim 64: heads, geometric mean and spread of 400 samples, edge (Eq. 6), bound.
# fmt: off
SAMPLED = [
    (1, 3.45, 0.041, 3.65, 14), (2, 8.66, 0.059, 9.31, 27), (3, 115, 0.31, 156, 314), (4, 14.25, 0.064, 15.3, 41),
    (5, 7.89, 0.042, 8.29, 25), (6, 5.82, 0.031, 6.05, 20), (8, 4.14, 0.024, 4.27, 16), (12, 2.98, 0.017, 3.05, 13),
    (16, 2.52, 0.014, 2.56, 12), (18, 2.37, 0.013, 2.41, 12), (24, 2.09, 0.010, 2.12, 11), (32, 1.88, 0.009, 1.90, 11),
]
# fmt: on
PEAK = [(176, 30.9), (188, 68), (194, 173), (196, 369), (197, 917), (198, 361), (200, 175), (208, 60), (240, 18.6)]


@pytest.mark.parametrize(("heads", "kappa", "spread", "edge", "bound"), SAMPLED)
def test_check_values_at_197_tokens(heads: int, kappa: float, spread: float, edge: float, bound: float) -> None:
    mean, sd = gaussian_log_kappa(197, 64 * heads)
    assert abs(mean - math.log(kappa)) < 0.03
    assert sd == pytest.approx(spread, rel=0.12)
    assert gaussian_edge(197, 64 * heads) == pytest.approx(edge, rel=0.004)
    assert np.exp(gaussian_bound(197, 64 * heads)) == pytest.approx(bound, rel=0.05)
    assert mean < gaussian_bound(197, 64 * heads)


@pytest.mark.parametrize(("inner", "kappa"), PEAK)
def test_check_values_around_the_peak(inner: int, kappa: float) -> None:
    assert abs(gaussian_log_kappa(197, inner).mean - math.log(kappa)) < 0.06


SHAPES = [(tokens, round(tokens * ratio)) for tokens in (65, 128, 197) for ratio in (0.1, 0.4, 0.8, 1.25, 3)]
NEAR = [(65, 65 + gap) for gap in (-10, -6, -3, -1, 0, 1, 2, 4, 8, 10, 14, 17, 24)] + [(130, 130), (130, 136)]
SMALL = [(2, 3), (4, 4), (8, 22), (12, 11), (17, 17), (20, 5), (33, 40), (50, 50)]


@pytest.mark.parametrize(("tokens", "inner"), SHAPES + NEAR + SMALL)
def test_prediction_is_near_the_samples(tokens: int, inner: int) -> None:
    gap = abs(tokens - inner)
    samples = 3000 if gap <= 10 else 600
    logs = np.log(sample_kappa(tokens, inner, samples, seed=tokens * inner))
    mean, spread = gaussian_log_kappa(tokens, inner)
    assert abs(mean - logs.mean()) < (0.06 if gap <= 10 or tokens < 65 else 0.03)
    assert spread == pytest.approx(logs.std(), rel=0.2)


def test_it_is_not_monotone_in_heads_and_peaks_where_inner_meets_tokens() -> None:
    for tokens, head_dim in ((197, 64), (197, 32), (512, 64), (1024, 64), (128, 16)):
        heads = np.arange(1, 4 * tokens // head_dim)
        mean = gaussian_log_kappa(tokens, head_dim * heads).mean
        top = int(mean.argmax())
        assert abs(heads[top] - peak_heads(tokens, head_dim)) < 1
        assert (np.diff(mean[: top + 1]) > 0).all()
        assert (np.diff(mean[top:]) < 0).all()
    inner = np.arange(100, 300)
    assert inner[gaussian_log_kappa(197, inner).mean.argmax()] == 197
    assert gaussian_log_kappa(197, 197).mean == pytest.approx(math.log(197) + 1.537, abs=0.03)


def test_long_contexts_get_worse_with_heads_before_the_peak() -> None:
    # head_dim 32, 1024 tokens, 2 -> 4 heads; head_dim 64, 1024 tokens, 12 -> 16 heads: onto the peak.
    kappa = np.exp(gaussian_log_kappa(1024, [64, 128, 256, 768, 1024]).mean)
    assert kappa[:4] == pytest.approx([1.63, 2.05, 2.94, 13.5], rel=0.02)
    assert kappa[4] > 4000


def test_theorem_3_2_first_limit_inner_far_beyond_tokens() -> None:
    for tokens in (16, 64):
        wide = sample_kappa(tokens, 4000 * tokens, 50)
        assert wide.max() < 1.05
        assert gaussian_log_kappa(tokens, 4000 * tokens).mean < 0.05


def test_theorem_3_2_second_limit_ever_more_heads_of_fixed_size() -> None:
    heads = 4 ** np.arange(1, 12)
    mean = gaussian_log_kappa(64, 64 * heads).mean
    assert (np.diff(mean) < 0).all()
    assert mean[-1] < 0.002
    assert mean == pytest.approx(np.log(gaussian_edge(64, 64 * heads)), rel=0.12)  # Eq. 6 and 13
    # ... as 2 sqrt(tokens / inner): a hundred times the heads for a tenth of the distance from 1.
    assert np.exp(mean[-1]) - 1 == pytest.approx(2 / math.sqrt(heads[-1]), rel=0.1)


def test_lemma_3_3_a_gaussian_block_has_full_rank() -> None:
    draw = np.random.default_rng(0)
    for tokens, inner in ((8, 64), (30, 90), (20, 20), (90, 30)):
        ranks = np.linalg.matrix_rank(draw.standard_normal((50, tokens, inner)))
        assert (ranks == min(tokens, inner)).all()
    assert np.isfinite(sample_kappa(16, 16, 5000)).all()


def test_the_bidiagonal_model_draws_what_an_svd_of_gaussian_blocks_gives() -> None:
    draw = np.random.default_rng(1)
    for tokens, inner in ((12, 30), (30, 24), (16, 16)):
        values = np.linalg.svd(draw.standard_normal((4000, tokens, inner)), compute_uv=False)
        drawn, ours = np.log(values[:, 0] / values[:, -1]), np.log(sample_kappa(tokens, inner, 4000))
        error = math.hypot(drawn.std(), ours.std()) / math.sqrt(4000)
        assert abs(drawn.mean() - ours.mean()) < 4 * error
        assert np.quantile(ours, [0.1, 0.9]) == pytest.approx(np.quantile(drawn, [0.1, 0.9]), abs=8 * error)
    assert np.array_equal(sample_kappa(20, 30, 10, seed=3), sample_kappa(30, 20, 10, seed=3))


def test_the_bisection_finds_the_singular_values_of_its_bidiagonal() -> None:
    from manyheads.conditioning.theory.gaussian import _eigenvalue

    draw = np.random.default_rng(2)
    main, side = draw.chisquare(5.0, (9, 3)), draw.chisquare(4.0, (8, 3))
    main[4, 1] = 1e-16  # nearly singular
    for sample in range(3):
        matrix = np.diag(np.sqrt(main[:, sample])) + np.diag(np.sqrt(side[:, sample]), 1)
        values = np.linalg.svd(matrix, compute_uv=False)
        above = main.sum(0) + side.sum(0)
        for index in (0, 4, 8):
            found = np.exp(_eigenvalue(main, side, above, index)[sample] / 2)
            assert found == pytest.approx(values[8 - index], rel=1e-6)


def test_shapes_at_the_rim() -> None:
    assert gaussian_log_kappa(1, 64) == gaussian_log_kappa(64, 1) == (0.0, 0.0)
    assert isinstance(gaussian_log_kappa(197, 768).mean, float)
    table = gaussian_log_kappa(np.array([[65], [197]]), np.array([64, 128, 256]))
    assert table.mean.shape == table.spread.shape == (2, 3)
    assert np.isfinite(gaussian_log_kappa(*np.meshgrid(np.arange(1, 60), np.arange(1, 60))).mean).all()
    assert gaussian_log_kappa(300, 100) == gaussian_log_kappa(100, 300)
    assert np.isinf(gaussian_edge(64, 64))
    assert ratio_for([3, 2.5, 2, 1.5]) == pytest.approx([4, 5.44, 9, 25], rel=0.01)
    near = gaussian_log_kappa(500, np.arange(500, 540)).mean
    assert (np.diff(near) < 0).all()  # no step where the table ends


def test_a_million_designs_take_seconds() -> None:
    draw = np.random.default_rng(0)
    tokens, inner = draw.integers(1, 4096, (2, 1_000_000))
    start = time.process_time()
    mean = gaussian_log_kappa(tokens, inner).mean
    assert time.process_time() - start < 5
    assert np.isfinite(mean).all()
    assert (mean >= 0).all()


def test_the_page_shows_what_the_functions_give() -> None:
    docs = Path(__file__).resolve().parents[2] / "docs"
    spec = importlib.util.spec_from_file_location("make_theory", docs / "make_theory.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = (docs / "theory.md").read_text()
    assert script.gaussian() in page
    for name in script.TABLES:
        assert page.count(f"<!-- {name} -->") == page.count(f"<!-- /{name} -->") == 1
