"""The numbers that a step computes in: precision, compilation, CUDA graphs, determinism and random numbers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from manyheads.spec.recipe import Recipe

from .parallel import Ranks


def uses_half(recipe: Recipe, device: torch.device) -> bool:
    """Whether this recipe computes in bfloat16 on `device`."""
    return recipe.precision == "bf16" or (recipe.precision == "auto" and device.type == "cuda")


def uses_compile(recipe: Recipe, device: torch.device) -> bool:
    """Whether this recipe compiles the model on `device`."""
    return recipe.compile == "on" or (recipe.compile == "auto" and device.type == "cuda")


def uses_graph(recipe: Recipe, ranks: Ranks) -> bool:
    """Whether a step is recorded as one CUDA graph: on one GPU, with whole batches, and with an optimizer of which
    nothing but the learning rate changes. Deterministic runs do without: a resumed run would record at a later step
    than the first one did."""
    if ranks.device.type != "cuda" or ranks.kind != "none" or recipe.accumulate > 1 or recipe.deterministic:
        return False
    if recipe.schedule.beta1 is not None:
        return False
    return recipe.capture == "on" or (recipe.capture == "auto" and uses_compile(recipe, ranks.device))


def autocast(device: torch.device, half: bool) -> AbstractContextManager[Any]:
    """Matrix products in bfloat16 where `half`; otherwise everything as it is."""
    return torch.autocast(device.type, torch.bfloat16) if half else nullcontext()


def reseed(device: torch.device, *place: int) -> None:
    """Make the global random numbers of `device` a function of `place`."""
    digest = hashlib.blake2b("/".join(map(str, place)).encode(), digest_size=7).digest()
    if device.type == "cuda":
        torch.cuda.manual_seed(int.from_bytes(digest))
    else:
        torch.default_generator.manual_seed(int.from_bytes(digest))


@contextmanager
def numerics(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """Apply the process-wide settings that a recipe asks for (TF32, determinism) and restore them afterwards, and with
    them the state of the random number generators."""
    if recipe.deterministic and device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
    cuda: Any = torch.backends.cuda
    cudnn: Any = torch.backends.cudnn
    conv = cudnn.conv
    before = (
        torch.are_deterministic_algorithms_enabled(),
        cuda.cudnn_sdp_enabled(),
        cuda.matmul.fp32_precision,
        conv.fp32_precision,
    )
    if recipe.deterministic:
        torch.use_deterministic_algorithms(True)
        cuda.enable_cudnn_sdp(False)
    if recipe.precision != "auto":
        cuda.matmul.fp32_precision = conv.fp32_precision = "tf32" if recipe.precision == "tf32" else "ieee"
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        cuda.enable_cudnn_sdp(before[1])
        cuda.matmul.fp32_precision, conv.fp32_precision = before[2], before[3]
