"""Writes the tables of docs/theory.md from the project's own functions: `python docs/make_theory.py`.

Each table stands between two marks, `<!-- name -->` and `<!-- /name -->`; everything else on the page is left alone.
The same seeds give the same page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from manyheads.conditioning import theory
from manyheads.conditioning.spectrum import spectrum

PAGE = Path(__file__).with_name("theory.md")
TOKENS, HEAD_DIM, WIDTH = 197, 64, 768
METHODS = ("eigen", "products", "exact")
# tokens, width, heads, head_dim
SHAPES = (
    (17, 192, 3, 64), (33, 256, 5, 32), (50, 200, 5, 40), (50, 200, 20, 20), (64, 512, 8, 64), (65, 192, 3, 64),
    (100, 400, 2, 100), (100, 400, 4, 100), (100, 1600, 16, 32), (197, 384, 6, 64), (197, 768, 4, 64), (197, 768, 16, 64),
)  # fmt: skip


def table(*rows: list[str]) -> str:
    """A Markdown table; the first row is its head."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def digits(x: float) -> str:
    """Three digits, no exponent."""
    return f"{x:.0f}" if x >= 100 else f"{x:.1f}" if x >= 10 else f"{x:.2f}"


def gaussian() -> str:
    """Heads of size 64 over 197 tokens: prediction, samples, Eq. 6."""
    rows = [["heads", "inner", "predicted", "samples", "spread of log kappa: predicted", "samples", "Eq. 6", "bound"]]
    for heads in (1, 2, 3, 4, 5, 6, 8, 12, 16, 18, 24, 32):
        inner = HEAD_DIM * heads
        mean, spread = theory.gaussian_log_kappa(TOKENS, inner)
        logs = np.log(theory.sample_kappa(TOKENS, inner, 400))
        kappas = math.exp(mean), math.exp(logs.mean())
        others = float(theory.gaussian_edge(TOKENS, inner)), math.exp(theory.gaussian_bound(TOKENS, inner))
        spreads = f"{spread:.3f}", f"{logs.std():.3f}"
        rows.append([str(heads), str(inner), *map(digits, kappas), *spreads, *map(digits, others)])
    return table(*rows)


def peak() -> str:
    """Around inner = tokens."""
    rows = [["inner", "predicted", "samples", "Eq. 6"]]
    for inner in (176, 188, 194, 196, 197, 198, 200, 208, 240):
        logs = np.log(theory.sample_kappa(TOKENS, inner, 2000))
        predicted = math.exp(theory.gaussian_log_kappa(TOKENS, inner).mean)
        rows.append(
            [
                str(inner),
                digits(predicted),
                digits(math.exp(logs.mean())),
                digits(float(theory.gaussian_edge(TOKENS, inner))),
            ]
        )
    return table(*rows)


def agreement_of_prediction() -> str:
    """Largest distance of the prediction from samples, by tokens."""
    rows = [["tokens", "shapes", "largest error of E log kappa", "at inner", "standard error of the samples there"]]
    for tokens in (8, 17, 33, 65, 128, 197):
        ratios = {max(2, round(tokens * ratio)) for ratio in (0.1, 0.25, 0.5, 0.8, 1.25, 2, 4, 16)}
        near = {tokens + gap for gap in (-10, -5, -2, 0, 1, 3, 7, 12, 16, 17, 20) if tokens + gap > 1}
        found = []
        for inner in sorted(ratios | near):
            logs = np.log(theory.sample_kappa(tokens, inner, 4000, seed=inner))
            error = theory.gaussian_log_kappa(tokens, inner).mean - logs.mean()
            found.append((abs(error), inner, logs.std() / math.sqrt(len(logs))))
        error, inner, noise = max(found)
        rows.append([str(tokens), str(len(found)), f"{error:.3f}", str(inner), f"{noise:.3f}"])
    return table(*rows)


def attention() -> str:
    """Softmax attention at initialisation: prediction and one draw."""
    rows = [
        ["heads", "centred: predicted", "drawn", "raw: predicted", "drawn", "values: predicted", "drawn", "Gaussian"]
    ]
    std = 0.02
    for heads in (2, 3, 4, 6, 8, 12, 18, 32):
        inner = HEAD_DIM * heads
        outputs, values = draw_attention((TOKENS, WIDTH, heads, HEAD_DIM), std)
        found, of_values = spectrum(outputs), spectrum(values)
        guesses = (
            theory.attention_kappa(TOKENS, inner, WIDTH, heads),
            theory.raw_attention_kappa(TOKENS, inner, WIDTH, heads, theory.logit_std(WIDTH, std)),
            theory.value_kappa(TOKENS, inner, WIDTH),
        )
        drawn = (found.centred_log_kappa, found.log_kappa, of_values.log_kappa)
        cells = [
            ["none" if np.isnan(guess) else digits(float(guess)), digits(value.mean().exp().item())]
            for guess, value in zip(guesses, drawn, strict=True)
        ]
        gauss = digits(math.exp(theory.gaussian_log_kappa(TOKENS, inner).mean))
        rows.append([str(heads), *cells[0], *cells[1], *cells[2], gauss])
    return table(*rows)


def shapes_of_attention() -> str:
    """Centred kappa over a grid of shapes, by whether the prediction is said to hold."""
    head = ["tokens", "width", "heads", "head_dim", "logits", "predicted", "drawn", "error", "said to hold"]
    rows = [head]
    for tokens, width, heads, head_dim in SHAPES:
        for logits in (0.1, 0.3):
            inner = heads * head_dim
            outputs, _ = draw_attention((tokens, width, heads, head_dim), math.sqrt(logits / width), samples=6)
            drawn = spectrum(outputs).centred_log_kappa.mean().exp().item()
            predicted = float(theory.attention_kappa(tokens, inner, width, heads))
            holds = bool(theory.attention_kappa_holds(tokens, inner, width, heads, logits))
            sizes = [str(size) for size in (tokens, width, heads, head_dim)]
            error = f"{predicted / drawn - 1:+.0%}"
            rows.append([*sizes, f"{logits}", digits(predicted), digits(drawn), error, "yes" if holds else "no"])
    return table(*rows)


def draw_attention(shape: tuple[int, int, int, int], std: float, samples: int = 3) -> tuple[Tensor, Tensor]:
    """Concatenated head outputs and values over independent LayerNormed tokens, for tokens, width, heads, head_dim."""
    tokens, width, heads, head_dim = shape
    draw = torch.Generator().manual_seed(heads)
    x = torch.nn.functional.layer_norm(
        torch.randn(samples, tokens, width, generator=draw, dtype=torch.float64), (width,)
    )
    weights = std * torch.randn(3, samples, width, heads * head_dim, generator=draw, dtype=torch.float64)
    q, k, v = (torch.matmul(x, weight).unflatten(-1, (heads, head_dim)).transpose(1, 2) for weight in weights)
    out = torch.softmax(q @ k.mT / math.sqrt(head_dim), -1) @ v
    outputs, values = (part.transpose(1, 2).flatten(2) for part in (out, v))
    return outputs, values


def values_of(size: int, kappa: float, shape: str) -> Tensor:
    """Singular values from 1 down to 1 / kappa."""
    x = torch.linspace(0, 1, size, dtype=torch.float64)
    halves = torch.where(x < 0.5, 1.0, 1 / kappa)
    made = {"geometric": kappa**-x, "linear": 1 - (1 - 1 / kappa) * x, "halves": halves}[shape]
    made[-1] = 1 / kappa
    return made


def agreement() -> str:
    """Largest relative error of kappa, raw and centred, against a float64 SVD."""
    shapes = ((16, 40), (40, 16), (197, 128), (197, 768), (512, 1024), (1024, 4096))
    kappas = (1.0, 1.5, 3.0, 1e2, 1e4, 1e6, 1e7, 1e9)
    rows = [["tokens x inner", "method", *(f"{kappa:g}" for kappa in kappas)]]
    for tokens, inner in shapes:
        draw, size = torch.Generator().manual_seed(tokens), min(tokens, inner)
        sides = [torch.randn(side, size, generator=draw, dtype=torch.float64) for side in (tokens, inner)]
        u, v = (torch.linalg.qr(side).Q for side in sides)
        cells: dict[str, list[str]] = {method: [] for method in METHODS}
        for kappa in kappas:
            spectra = ("geometric", "linear", "halves") if tokens < 1000 else ("linear",)
            matrices = torch.stack([(u * values_of(size, kappa, shape)) @ v.T for shape in spectra])
            truth = [kappa_by_svd(matrices, centred) for centred in (False, True)]
            for method in METHODS:
                found = spectrum(matrices, method=method)  # type: ignore[arg-type]
                errors = torch.cat([(found.kappa / truth[0] - 1).abs(), (found.centred_kappa / truth[1] - 1).abs()])
                trusted = torch.cat([found.reliable, found.centred_reliable])
                worst = max(errors[trusted].tolist(), default=math.nan)
                told = "flagged" if math.isnan(worst) else "< 1e-9" if worst < 1e-9 else f"{worst:.0e}"
                cells[method].append(told if trusted.all() or math.isnan(worst) else f"{told} (f)")
        rows += [[f"{tokens} x {inner}", method, *cells[method]] for method in METHODS]
    return table(*rows)


def kappa_by_svd(matrices: Tensor, centred: bool) -> Tensor:
    """kappa from `torch.linalg.svdvals` in float64."""
    tokens, inner = matrices.shape[-2:]
    values = torch.linalg.svdvals(matrices - matrices.mean(-2, keepdim=True) if centred else matrices)
    return values[:, 0] / values[:, min(tokens - centred, inner) - 1]


TABLES: dict[str, Callable[[], str]] = {
    "gaussian": gaussian,
    "peak": peak,
    "prediction": agreement_of_prediction,
    "attention": attention,
    "shapes": shapes_of_attention,
    "agreement": agreement,
}


def write(page: str) -> str:
    """`page` with every table made anew."""
    for name, make in TABLES.items():
        made = make()
        page, found = re.subn(
            rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)",
            lambda m, made=made: f"{m[1]}\n{made}\n\n{m[2]}",
            page,
            flags=re.S,
        )
        assert found == 1, name
    return page


if __name__ == "__main__":
    torch.set_num_threads(1)
    PAGE.write_text(write(PAGE.read_text()))
