"""What the rank experiments share (2407.16153): their encoder by rank and multiplier, names of arms, recipes by scale.

Two ways of having more heads. Along a row, heads x rank stays at multiplier x width: rank falls (`split`). Down a
column, rank stays and the multiplier grows (`fixed`). The paper labels multipliers by parameters: d^2 is 1, d^2.5 is
sqrt(dim), d^3 is dim, and so do the arms: L1_d2.5_half has 1 layer, multiplier sqrt(dim) and heads of rank dim/2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from manyheads.arch.families import nearest_neighbor
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Setting

# Runs shorter than the paper's warm up as much faster, and three layers may then break (`rank_rate`). Experiments with
# several layers therefore take a quarter of a shorter run for it, all of their arms; of 20,000 steps, the paper's
# 5,000.
SLOW: Mapping[str, Any] = {"schedule": {"kind": "cosine", "warmup": 0.25}}
SHARES = {1: "full", 2: "half", 4: "quarter", 8: "eighth"}


def encoder(
    dim: int,
    depth: int,
    multiplier: int,
    rank: int,
    *,
    tokens: int,
    mlp_dim: int,
    positions: str = "none",
    position_dim: int = 0,
) -> Arch:
    """The paper's encoder: multiplier x width / rank heads of that rank."""
    width = dim + position_dim if positions == "concat" else dim
    return nearest_neighbor(
        dim,
        depth,
        multiplier * width // rank,
        rank,
        mlp_dim,
        tokens=tokens,
        positions=positions,
        position_dim=position_dim,
    )


def rank_name(dim: int, rank: int) -> str:
    """A rank as a share of the dimension, so that scales of different dimension can be compared; r4, r2, r1 below."""
    return SHARES.get(dim // rank, f"r{rank}") if rank > 1 else "r1"


def width_name(dim: int, multiplier: int) -> str:
    """A multiplier as the paper labels it: d2, d2.5 and d3 for 1, sqrt(dim) and dim."""
    return f"d{2 + math.log(multiplier, dim):.3g}"


def recipe(steps: int, batch: int, lr: float, **fields: Any) -> dict[str, Any]:
    """The paper's training: AdamW without decay, betas 0.9 and 0.95, 5 % warm-up from 0, cosine to 0, nothing clipped.

    Small models in float32: on a GPU products are TF32 and steps are compiled and captured."""
    return {
        "batch": batch,
        "basis": {"kind": "steps", "amount": steps},
        "lr": lr,
        "betas": [0.9, 0.95],
        "weight_decay": 0.0,
        "clip": 0.0,
        "schedule": {"kind": "cosine", "warmup": 0.05},
        "precision": "tf32",
        "compile": "auto",
        "capture": "on",
        "evaluate_every": 0.25,
        "probe_every": 0.5,
        "probe_samples": 64,
        "checkpoint_every": 0.25,
    } | fields


def laptop(steps: int, batch: int, lr: float, **fields: Any) -> dict[str, Any]:
    """The same for two CPU cores: float32 throughout, and nothing compiled, which would take longer than the run."""
    return recipe(steps, batch, lr, precision="fp32", compile="off", **fields)


def brief(setting: Setting, steps: int = 40) -> dict[str, Setting]:
    """The scales for two CPU cores: `laptop`, and as `smoke` its arms with one seed for so few steps."""
    recipes = {basis: {**made, "basis": {"kind": "steps", "amount": steps}} for basis, made in setting.recipes.items()}
    return {"smoke": replace(setting, seeds=(0,), recipes=recipes), "laptop": setting}


def task(dim: int, tokens: int, **fields: Any) -> dict[str, Any]:
    """The farthest-neighbour task on the sphere that all of the paper's experiments train."""
    return {"is": "NearestNeighbor", "dim": dim, "tokens": tokens, **fields}
