"""What makes tokens: patches of an image, a vocabulary."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.spec.parts import Patch, Token

from .inputs import check_ids, check_image, check_types
from .norm import make_norm
from .rope import Table
from .stream import into_stream


class PatchEmbed(nn.Module):
    """Patches as one matrix product (a strided convolution's weights, flattened), class tokens, learned positions.

    `weight` has columns in the order (channel, row, column), as a convolution's weights flatten."""

    group = "embedding"

    def __init__(self, width: int, spec: Patch) -> None:
        super().__init__()
        self.spec = spec
        self.half_stream = False
        grid = spec.image // spec.patch
        rows = grid**2 + (spec.class_tokens if spec.class_positions else 0)
        self.proj = nn.Linear(spec.channels * spec.patch**2, width)
        self.class_tokens = nn.Parameter(torch.zeros(spec.class_tokens, width)) if spec.class_tokens else None
        self.positions = nn.Parameter(torch.zeros(rows, width))

    def forward(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch tokens width"]:
        """Class tokens, then patches row by row, with their positions."""
        return into_stream(self.tokens(images), self.half_stream)

    def tokens(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch tokens width"]:
        """The same in the precision it was computed in."""
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


class Sinusoid(Table):
    """Sines in even columns, cosines in odd ones, base 10,000, times one learned scalar that starts at
    1/sqrt(width)."""

    group = "embedding"

    def __init__(self, width: int, length: int) -> None:
        super().__init__(length, width)
        self.scale = nn.Parameter(torch.full((), width**-0.5))
        self.reset()

    def rows(self) -> Float[Tensor, "length width"]:
        """The waves, unscaled."""
        length, width = self.table.shape
        steps = torch.arange(0, width, 2, dtype=torch.float64) / width
        angles = torch.outer(torch.arange(length, dtype=torch.float64), 10_000.0**-steps)
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[:, :width]

    def forward(self, tokens: int) -> Float[Tensor, "tokens width"]:
        """The first `tokens` rows, scaled."""
        return self.scale * self.table[:tokens]


class TokenEmbed(nn.Module):
    """Vocabulary, positions (learned rows, or a sinusoid times one learned scalar), segment types, norm."""

    group = "embedding"

    def __init__(self, width: int, spec: Token, tokens: int) -> None:
        super().__init__()
        self.spec = spec
        self.half_stream = False
        self.tokens = spec.positions or tokens
        self.vocab = nn.Embedding(spec.vocab, width)
        self.positions = nn.Embedding(spec.positions, width) if spec.positions else None
        self.sinusoid = Sinusoid(width, tokens) if spec.sinusoid else None
        self.types = nn.Embedding(spec.types, width) if spec.types else None
        self.norm = make_norm(spec.norm, width)

    def forward(
        self,
        ids: Int[Tensor, "batch tokens"],
        types: Tensor | None = None,
        places: Int[Tensor, "*b tokens"] | None = None,
    ) -> Float[Tensor, "batch tokens width"]:
        """The sum of what each id, its position and its segment look up, normed; without `types` all are of segment 0.
        `places` are the tokens' positions where the first is not 0, of learned positions."""
        check_ids(ids, self.spec.vocab, self.tokens)
        x = self.vocab(ids)
        if self.positions is not None:
            x = x + (self.positions.weight[: ids.shape[1]] if places is None else self.positions(places))
        if self.sinusoid is not None:
            x = x + self.sinusoid(ids.shape[1])
        if types is not None:
            check_types(types, ids, self.spec.types)
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        return into_stream(self.norm(x), self.half_stream)
