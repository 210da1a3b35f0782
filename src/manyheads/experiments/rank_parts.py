"""What the rank experiments share (2407.16153): the encoder by rank and multiplier, names of arms, recipes, scales.

Two ways of having more heads. Along a row of Figure 1, heads x rank stays at multiplier x width: rank falls (`split`).
Down a column, rank stays and the multiplier grows (`fixed`). The paper labels multipliers by parameters: d^2 is 1,
d^2.5 is sqrt(dim), d^3 is dim. So do the arms: L1_d2.5_half has 1 layer, multiplier sqrt(dim) and heads of rank
dim/2."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from manyheads.arch.families import nearest_neighbor
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import Arm, Setting
from manyheads.spec.points import NearestNeighbor
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.schedule import Schedule
from manyheads.spec.task import Task

# Where a run is shorter than the paper's, so is a warm-up of 5 %, and three layers may then break (`rank_rate`). In a
# shorter run of an experiment with several layers, all arms therefore warm up for a quarter of it: of 20,000 steps, the
# paper's 5,000.
SLOW: Mapping[str, Any] = {"schedule": Schedule("cosine", warmup=0.25)}
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
    """The name of a rank by its share of the dimension, which compares scales of different dimension; or r4, r2, r1."""
    return SHARES.get(dim // rank, f"r{rank}") if rank > 1 else "r1"


def width_name(dim: int, multiplier: int) -> str:
    """A multiplier as the paper labels it: d2, d2.5 and d3 for 1, sqrt(dim) and dim."""
    return f"d{2 + math.log(multiplier, dim):.3g}"


def recipe(steps: int, batch: int, lr: float, **fields: Any) -> Recipe:
    """The paper's training: AdamW without decay, betas 0.9 and 0.95, 5 % warm-up from 0, cosine to 0, nothing clipped.

    Small models in float32: on a GPU products are TF32 and steps are compiled and captured."""
    usual = Recipe(
        batch=batch,
        basis=Basis("steps", steps),
        lr=lr,
        betas=(0.9, 0.95),
        weight_decay=0.0,
        clip=0.0,
        schedule=Schedule("cosine", warmup=0.05),
        precision="tf32",
        capture="on",
        evaluate_every=0.25,
        probe_every=0.5,
        probe_samples=64,
        checkpoint_every=0.25,
    )
    return replace(usual, **fields)


def laptop(steps: int, batch: int, lr: float, **fields: Any) -> Recipe:
    """The same for two CPU cores: float32 throughout; nothing is compiled, which would take longer than the run."""
    return recipe(steps, batch, lr, precision="fp32", compile="off", **fields)


def setting(arms: tuple[Arm, ...], task: Task, recipe: Recipe, seeds: int = 3) -> Setting:
    """One scale: every arm with the seeds 0, 1, ..., on equal steps."""
    return Setting(arms, tuple(range(seeds)), task, {"steps": recipe})


def scales(laptop: Setting, small: Setting, paper: Setting) -> dict[str, Setting]:
    """All scales of a rank experiment; `smoke` is the arms of `laptop` with one seed for 40 steps."""
    brief = {name: replace(recipe, basis=Basis("steps", 40)) for name, recipe in laptop.recipes.items()}
    return {"smoke": replace(laptop, seeds=(0,), recipes=brief), "laptop": laptop, "small": small, "paper": paper}


def task(dim: int, tokens: int, **fields: Any) -> NearestNeighbor:
    """The farthest-neighbour task on the sphere that all of the paper's experiments train."""
    return NearestNeighbor(dim, tokens, **fields)
