"""Example inputs of any architecture and one training step on them: what timing and measuring memory work on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.spec.arch import Arch
from manyheads.spec.parts import Lm, Masked, Pair, Points, Token


def example(arch: Arch, batch: int, device: torch.device | str) -> Tensor:
    """Inputs of the right shape: normal images or points, uniformly drawn ids."""
    embed, tokens = arch.embed, arch.stages[0].tokens
    generator = torch.Generator().manual_seed(0)
    if isinstance(embed, Token):
        shape = (batch, 2, tokens) if isinstance(arch.head, Pair) else (batch, tokens)
        return torch.randint(embed.vocab, shape, generator=generator).to(device)
    if isinstance(embed, Points):
        return torch.randn(batch, tokens, embed.dim, generator=generator).to(device)
    return torch.randn(batch, embed.channels, embed.image, embed.image, generator=generator).to(device)


def training_step(arch: Arch, model: nn.Module, optimizer: torch.optim.Optimizer, inputs: Tensor, half: bool) -> None:
    """One step as the originals make it, under bfloat16 autocast if `half`.

    The loss has the size that it has in training: a language model's is over every token's logits, any other model's is
    the mean square of its output."""
    with torch.autocast(inputs.device.type, torch.bfloat16, enabled=half):
        out = model(inputs)
        if isinstance(arch.head, Lm | Masked):
            labels = torch.zeros(out.shape[:-1].numel(), dtype=torch.long, device=out.device)
            loss = nn.functional.cross_entropy(out.flatten(0, -2), labels)
        else:
            loss = out.float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def tracked_bytes(snapshot: Mapping[Any, Mapping[Any, int]]) -> float:
    """Bytes over all devices in a snapshot of PyTorch's memory tracker."""
    return float(
        sum(size for kinds in snapshot.values() for name, size in kinds.items() if str(name).endswith("Total"))
    )
