"""Embeddings: an image becomes patches, token ids become vectors, and both enter the residual stream."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from manyheads.spec.errors import UserError
from manyheads.spec.parts import Patch, Token

from . import Part
from .inputs import Ids, check_ids, check_image, check_types, check_vectors
from .positions import Sinusoid
from .residual import make_norm

torch.fx.wrap("check_image")  # torch.fx calls it whole, since it decides by the sizes of its tensors


class Embedding(Part):
    """What makes tokens, and the precision in which these enter the residual stream under autocast: float32 as PyTorch
    leaves it or, with `half_stream`, autocast's own, which moves half the bytes. Branches compute in that precision
    anyway, so the stream stays in it; norms still compute in float32."""

    group = "embedding"

    def __init__(self) -> None:
        super().__init__()
        self.half_stream = False

    def into_stream(self, x: Tensor) -> Tensor:
        """Tokens in the precision of the residual stream."""
        kind = x.device.type
        half = self.half_stream and torch.is_autocast_enabled(kind)
        return x.to(torch.get_autocast_dtype(kind)) if half else x


def half_stream(model: nn.Module, on: bool = True) -> nn.Module:
    """Keep the residual stream of `model` in half precision under autocast, or (`on=False`) in float32 again."""
    for part in model.modules():
        if isinstance(part, Embedding):
            part.half_stream = on
    return model


class PatchEmbed(Embedding):
    """Patches as one matrix product (a strided convolution's weights, flattened), class tokens, learned positions, and
    what else the record has: registers, a mask token, a norm over all tokens.

    `weight` has columns in the order (channel, row, column), as a convolution's weights flatten."""

    def __init__(self, width: int, spec: Patch) -> None:
        super().__init__()
        self.spec = spec
        grid = spec.image // spec.patch
        rows = grid**2 + (spec.class_tokens if spec.class_positions else 0)
        self.proj = nn.Linear(spec.channels * spec.patch**2, width, bias=spec.bias)
        self.class_tokens = nn.Parameter(torch.zeros(spec.class_tokens, width)) if spec.class_tokens else None
        self.positions = nn.Parameter(torch.zeros(rows, width))
        self.registers = nn.Parameter(torch.zeros(spec.registers, width)) if spec.registers else None
        self.mask_token = nn.Parameter(torch.zeros(width)) if spec.mask_token else None
        self.norm = make_norm(spec.norm, width)

    def forward(
        self, images: Float[Tensor, "batch channels rows columns"], hidden: Bool[Tensor, "batch patches"] | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        """Class tokens, registers, then patches row by row, with their positions. The mask token stands in place of the
        `hidden` patches."""
        return self.into_stream(self.norm(self.tokens(images, hidden)))

    def tokens(
        self, images: Float[Tensor, "batch channels rows columns"], hidden: Bool[Tensor, "batch patches"] | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        """The tokens before the norm, in the precision they were computed in."""
        spec = self.spec
        check_image(images, spec.image, spec.channels)
        grid, p = spec.image // spec.patch, spec.patch
        x = images.reshape(-1, spec.channels, grid, p, grid, p).permute(0, 2, 4, 1, 3, 5)
        x = self.proj(x.reshape(-1, grid * grid, spec.channels * p * p))
        if hidden is not None:
            x = self.masked(x, hidden)
        if self.class_tokens is None:
            x = x + self.positions
        elif spec.class_positions:
            x = torch.cat((self.class_tokens.expand(x.shape[0], -1, -1), x), dim=1) + self.positions
        else:
            x = torch.cat((self.class_tokens.expand(x.shape[0], -1, -1), x + self.positions), dim=1)
        if self.registers is None:
            return x
        front, rest = x[:, : spec.class_tokens], x[:, spec.class_tokens :]
        return torch.cat((front, self.registers.expand(x.shape[0], -1, -1), rest), dim=1)

    def masked(
        self, patches: Float[Tensor, "batch patches width"], hidden: Bool[Tensor, "batch patches"]
    ) -> Float[Tensor, "batch patches width"]:
        """The patches with the mask token in place of the `hidden` ones."""
        if self.mask_token is None:
            raise UserError("patches to hide were given, and this record has no mask token; leave them out")
        return torch.where(hidden[..., None], self.mask_token.to(patches.dtype), patches)


class ScaledEmbedding(nn.Embedding):
    """An embedding whose vectors are multiplied by a number, rounded to their precision."""

    def __init__(self, rows: int, width: int, scale: float) -> None:
        super().__init__(rows, width)
        self.scale = scale

    def forward(self, ids: Tensor) -> Tensor:
        x = super().forward(ids)
        return x * torch.full((), self.scale, dtype=x.dtype, device=x.device)


class TokenEmbed(Embedding):
    """Vocabulary, positions (learned rows, or a sinusoid times one learned scalar), segment types, norm."""

    def __init__(self, width: int, spec: Token, tokens: int) -> None:
        super().__init__()
        self.spec = spec
        self.tokens = spec.places or tokens
        self.vocab = nn.Embedding(spec.vocab, width)
        if spec.scale != 1.0:
            self.vocab = ScaledEmbedding(spec.vocab, width, spec.scale)
        self.positions = nn.Embedding(spec.positions, width) if spec.positions else None
        self.sinusoid = Sinusoid(width, tokens) if spec.sinusoid else None
        self.types = nn.Embedding(spec.types, width) if spec.types else None
        self.norm = make_norm(spec.norm, width)

    def forward(
        self, ids: Ids, types: Tensor | None = None, places: Int[Tensor, "*rows tokens"] | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        """The sum of what each id, its position and its segment look up, normed; without `types` all are of segment 0.
        `places` are the tokens' positions where they are not 0, 1, 2 and so on. Vectors in place of ids stand for what
        ids look up."""
        if ids.ndim == 3 and ids.is_floating_point():
            check_vectors(ids, self.vocab.embedding_dim, self.tokens)
            x = ids
        else:
            check_ids(ids, self.spec.vocab, self.tokens)
            x = self.vocab(ids)
        if self.positions is not None:
            first, length = self.spec.first, ids.shape[1]
            rows = self.positions.weight[first : first + length]
            x = x + (rows if places is None else self.positions(places + first))
        if self.sinusoid is not None:
            x = x + self.sinusoid(ids.shape[1], places)
        if types is not None:
            check_types(types, ids, self.spec.types)
        if self.types is not None:
            x = x + (self.types.weight[0] if types is None else self.types(types))
        return self.into_stream(self.norm(x))
