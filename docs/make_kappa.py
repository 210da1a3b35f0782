"""Draws kappa against heads for an untrained ViT-B beside the theory: `python docs/make_kappa.py`.

Both policies, 2 to 18 heads and 3, all 12 layers, standard normal images; the numbers are kept in evidence/."""

from __future__ import annotations

import json
import math
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
import torch

from manyheads.arch import zoo
from manyheads.arch.redesign import redesign
from manyheads.conditioning import theory
from manyheads.conditioning.probe import probe, summary
from manyheads.models.build import build
from manyheads.spec.arch import Arch

HERE = Path(__file__).parent
RECORD = HERE.parent / "evidence" / "kappa_untrained_vit_b.json"
TOKENS, WIDTH, HEAD_DIM, IMAGES, SEEDS = 197, 768, 64, 2, (0, 1, 2)
HEADS = (2, 3, 4, 6, 8, 10, 12, 14, 16, 18)
BLUE, ORANGE, INK = "#1f6feb", "#d1642d", "#57606a"


def designs() -> dict[str, list[tuple[int, Arch]]]:
    """ViT-B with other heads: head_dim kept, or inner kept where it divides."""
    base = zoo.get("vit_b")
    return {
        "fixed": [(heads, redesign(base, heads=heads)) for heads in HEADS],
        "split": [(heads, redesign(base, heads=heads, policy="split")) for heads in HEADS if WIDTH % heads == 0],
    }


def measure(arch: Arch, seed: int) -> tuple[float, float]:
    """Mean over layers of log kappa, raw and centred."""
    images = torch.randn(IMAGES, 3, 224, 224, generator=torch.Generator().manual_seed(seed))
    found = summary(probe(build(arch, seed=seed), images))["softmax"]
    return found.mean_log_kappa, found.mean_centred_log_kappa


def record() -> dict[str, object]:
    """Every point with its seeds."""
    points = []
    for policy, made in designs().items():
        for heads, arch in made:
            logs = [measure(arch, seed) for seed in SEEDS]
            points.append(
                {
                    "policy": policy,
                    "heads": heads,
                    "head_dim": HEAD_DIM if policy == "fixed" else WIDTH // heads,
                    "log_kappa": [raw for raw, _ in logs],
                    "centred_log_kappa": [centred for _, centred in logs],
                }
            )
            print(policy, heads, *(f"{math.exp(np.mean([pair[i] for pair in logs])):.1f}" for i in (0, 1)), flush=True)
    return {
        "model": "vit_b, initial weights",
        "tokens": TOKENS,
        "images": IMAGES,
        "seeds": list(SEEDS),
        "layers": 12,
        "torch": torch.__version__,
        "device": "cpu",
        "points": points,
    }


def draw(found: dict[str, object]) -> None:
    """Fixed on the left with its peak, split on the right, both beside what theory expects."""
    plt.rcParams.update(
        {"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "manyheads"}
    )
    figure, panes = plt.subplots(1, 2, figsize=(8.4, 3.7), sharey=True)
    fine = np.linspace(1.5, 18.5, 341)
    std = theory.logit_std(WIDTH, 0.02)
    for axes, policy in zip(panes, ("fixed", "split"), strict=True):
        inner = fine * HEAD_DIM if policy == "fixed" else np.full_like(fine, WIDTH)
        gauss = [math.exp(theory.gaussian_log_kappa(TOKENS, round(value)).mean) for value in inner]
        axes.plot(fine, gauss, color=INK, ls=":", label="Gaussian heads, predicted")
        raw = theory.raw_attention_kappa(TOKENS, inner, WIDTH, fine, std)
        axes.plot(fine, raw, color=BLUE, lw=1, label="softmax heads, predicted")
        centred = theory.attention_kappa(TOKENS, inner, WIDTH, fine)
        axes.plot(fine, centred, color=ORANGE, lw=1, label="the same, centred")
        points = [point for point in found["points"] if point["policy"] == policy]  # type: ignore[attr-defined]
        for key, colour, name in (("log_kappa", BLUE, "measured"), ("centred_log_kappa", ORANGE, "measured, centred")):
            x = [point["heads"] for point in points for _ in point[key]]
            y = np.exp([value for point in points for value in point[key]])
            axes.plot(x, y, "o", ms=4, mfc="none", color=colour, label=name)
        axes.set(
            yscale="log",
            xlabel="heads",
            xticks=[2, 3, 4, 6, 8, 12, 16, 18],
            title="fixed: head_dim 64, inner grows" if policy == "fixed" else "split: inner 768, heads get thinner",
        )
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    panes[0].axvline(TOKENS / HEAD_DIM, color="#d0d7de", lw=6, zorder=0)
    panes[0].text(TOKENS / HEAD_DIM + 0.5, 6e4, "inner = tokens", color=INK, va="center")
    panes[0].set_ylabel("kappa, geometric mean over 12 layers")
    panes[1].legend(frameon=False, fontsize=8, loc="upper right")
    figure.tight_layout()
    for kind in ("svg", "png"):
        figure.savefig(
            HERE / "img" / f"kappa_heads.{kind}", dpi=130, metadata={"Date": None} if kind == "svg" else None
        )


if __name__ == "__main__":
    if not RECORD.exists():
        RECORD.write_text(json.dumps(record(), indent=1) + "\n")
    draw(json.loads(RECORD.read_text()))
