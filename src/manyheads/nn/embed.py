"""What makes tokens: patches of an image, a vocabulary."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.arch.parts import Patch, Token

from .inputs import check_ids, check_image
from .norm import make_norm


class PatchEmbed(nn.Module):
    """Patches as one matrix product (a strided convolution's weights, flattened), class tokens, learned positions.

    `weight` has columns in the order (channel, row, column), as a convolution's weights flatten."""

    group = "embedding"

    def __init__(self, width: int, spec: Patch) -> None:
        super().__init__()
        self.spec = spec
        grid = spec.image // spec.patch
        rows = grid**2 + (spec.class_tokens if spec.class_positions else 0)
        self.proj = nn.Linear(spec.channels * spec.patch**2, width)
        self.class_tokens = nn.Parameter(torch.zeros(spec.class_tokens, width)) if spec.class_tokens else None
        self.positions = nn.Parameter(torch.zeros(rows, width))

    def forward(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch tokens width"]:
        spec = self.spec
        check_image(images, spec.image, spec.channels)
        grid, p = spec.image // spec.patch, spec.patch
        x = images.reshape(-1, spec.channels, grid, p, grid, p).permute(0, 2, 4, 1, 3, 5)
        x = self.proj(x.reshape(-1, grid * grid, spec.channels * p * p))
        if self.class_tokens is None:
            return x + self.positions
        front = self.class_tokens.expand(x.shape[0], -1, -1)
        if spec.class_positions:
            return torch.cat((front, x), dim=1) + self.positions
        return torch.cat((front, x + self.positions), dim=1)


class TokenEmbed(nn.Module):
    """Vocabulary, positions (learned rows, or a sinusoid times one learned scalar), segment types, norm."""

    group = "embedding"

    def __init__(self, width: int, spec: Token, tokens: int) -> None:
        super().__init__()
        self.spec = spec
        self.tokens = spec.positions or tokens
        self.vocab = nn.Embedding(spec.vocab, width)
        self.positions = nn.Embedding(spec.positions, width) if spec.positions else None
        self.types = nn.Embedding(spec.types, width) if spec.types else None
        self.norm = make_norm(spec.norm, width)
        if spec.sinusoid:
            self.scale = nn.Parameter(torch.full((), width**-0.5))
            self.register_buffer("table", torch.empty(tokens, width), persistent=False)
            self.reset()

    def reset(self) -> None:
        """Fill the sinusoid: sines in even columns, cosines in odd ones, base 10,000."""
        if not self.spec.sinusoid or self.table.device.type == "meta":
            return
        length, width = self.table.shape
        steps = torch.arange(0, width, 2, dtype=torch.float64) / width
        angles = torch.outer(torch.arange(length, dtype=torch.float64), 10_000.0**-steps)
        self.table[:, 0::2] = angles.sin()
        self.table[:, 1::2] = angles.cos()[:, : width // 2]

    def forward(self, ids: Int[Tensor, "batch tokens"], types: Tensor | None = None) -> Float[Tensor, "batch tokens width"]:
        limit = self.tokens if (self.spec.positions or self.spec.sinusoid) else None
        check_ids(ids, self.spec.vocab, limit)
        x = self.vocab(ids)
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        if self.spec.sinusoid:
            x = x + self.scale * self.table[: ids.shape[1]]
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        return self.norm(x)
