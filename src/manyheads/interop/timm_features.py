"""What timm reads off a model before its head: the tokens after each layer or stage, as tokens or as images.

A model is walked in steps: `start` makes the first state of an image, `advance` carries it through one of `points()`,
`tokens_of` reads the tokens off it, and `finish` carries it from the last point to the head. `timm_models` has the steps
of each family."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from torch import Tensor, nn

from manyheads.spec.arch import Arch, class_attentions
from manyheads.spec.errors import UserError, optional
from manyheads.spec.parts import ConvStem, Downsample, Patch

selection: Any = optional("timm.models._features", "manyheads[vision]")
FORMATS = ("NCHW", "NLC")
Indices = int | Sequence[int] | None


class TimmFeatures(nn.Module):
    """Features and intermediate features of a manyheads model, as timm's methods give them."""

    # what the model's own class has; torch types submodules as Tensor | Module
    arch: Any
    head: Any
    features: Any
    feature_info: list[dict[str, Any]]
    num_prefix_tokens: int
    per_stage = False  # whether features are read after every stage, not after every block

    # ------------------------------------------------------------------------------------- the steps, by family
    def start(self, images: Tensor) -> Any:
        """The state that enters the first point."""
        raise NotImplementedError

    def points(self) -> list[nn.Module]:
        """The layers or stages after which features are read."""
        raise NotImplementedError

    def advance(self, point: nn.Module, state: Any) -> Any:
        """The state after a layer or stage."""
        return point(state)

    def tokens_of(self, state: Any) -> Tensor:
        """The tokens of a state: batch x tokens x width."""
        tokens: Tensor = state
        return tokens

    def finish(self, state: Any) -> Tensor:
        """The tokens that the head reads, from the state after the last point."""
        return self.tokens_of(state)

    def keep(self, count: int, *, head: bool) -> None:
        """Drop the points after the first `count`, and without `head` what stands between them and the classifier."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ what timm calls
    def forward_features(self, x: Tensor) -> Tensor:
        """The tokens as the head pools them: after its norm, unless that comes after pooling."""
        normed: Tensor = self.head.normed(self.features(x))
        return normed

    def forward_intermediates(
        self,
        x: Tensor,
        indices: Indices = None,
        return_prefix_tokens: bool = False,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
        output_dict: bool = False,
    ) -> Any:
        """What `forward_features` returns, and the tokens after the layers or stages of `indices`: the last so many, or
        those numbers, or all.

        Each is an image of features (`NCHW`) or tokens (`NLC`), after the head's `norm` where that has its width and
        stands before pooling; with `return_prefix_tokens` a pair of it and the class tokens and registers. `stop_early`
        leaves out the points after the last one wanted."""
        if output_fmt not in FORMATS:
            raise UserError(f"output_fmt {output_fmt!r}; write {' or '.join(map(repr, FORMATS))}")
        points = self.points()
        wanted, last = chosen(indices, len(points))
        state, found = self.start(x), []
        for number, point in enumerate(points[: last + 1] if stop_early else points):
            state = self.advance(point, state)
            if number in wanted:
                tokens = self.tokens_of(state)
                found.append(self._normed(tokens, number) if norm else tokens)
        front = self.num_prefix_tokens
        prefix = [tokens[:, :front] for tokens in found]
        found = [tokens[:, front:] for tokens in found]
        if output_fmt == "NCHW":
            sides = [self.feature_info[number]["grid"] for number in sorted(set(wanted))]
            found = [t.transpose(1, 2).unflatten(-1, (s, s)).contiguous() for t, s in zip(found, sides, strict=True)]
        if output_dict:
            result: dict[str, Any] = {"image_intermediates": found}
            result |= {"image_intermediates_prefix": prefix} if front and return_prefix_tokens else {}
            return result if intermediates_only else result | {"image_features": self._last(state)}
        pairs: Any = list(zip(found, prefix, strict=True)) if front and return_prefix_tokens else found
        return pairs if intermediates_only else (self._last(state), pairs)

    def get_intermediate_layers(
        self, x: Tensor, n: Indices = 1, reshape: bool = False, return_prefix_tokens: bool = False, norm: bool = False
    ) -> Any:
        """The tokens after the last `n` layers, or after those numbers, as DINO's code asks for them."""
        form = "NCHW" if reshape else "NLC"
        return self.forward_intermediates(
            x, n, return_prefix_tokens, norm=norm, output_fmt=form, intermediates_only=True
        )

    def prune_intermediate_layers(
        self, indices: Indices = 1, prune_norm: bool = False, prune_head: bool = True
    ) -> list[int]:
        """Drop the layers after the last one of `indices`, and, as asked, the head's norm and the classifier. Returns
        the numbers. `arch` stays the record of the whole model."""
        wanted, last = chosen(indices, len(self.points()))
        self.keep(last + 1, head=not prune_head)
        self.feature_info = self.feature_info[: last + 1]
        if prune_norm:
            self.head.norm = nn.Identity()
        if prune_head:
            self.reset_classifier(0, "")  # type: ignore[operator]
        return wanted

    def _normed(self, tokens: Tensor, number: int) -> Tensor:
        """Tokens after the head's norm, where it is one of tokens of that width."""
        fits = self.feature_info[number]["num_chs"] == self.arch.stages[-1].width
        normed: Tensor = self.head.normed(tokens) if fits else tokens
        return normed

    def _last(self, state: Any) -> Tensor:
        normed: Tensor = self.head.normed(self.finish(state))
        return normed

    def described(self) -> list[dict[str, Any]]:
        """timm's `feature_info`: name, width, reduction and grid of each point."""
        return describe(self.arch, per_stage=self.per_stage)


def chosen(indices: Indices, count: int) -> tuple[list[int], int]:
    """The numbers of the points that `indices` mean, and the last of them."""
    try:
        numbers, last = selection.feature_take_indices(count, indices)
    except AssertionError:
        raise UserError(
            f"indices {indices}: features can be read at {count} places; write the last so many (up to {count}), or "
            f"numbers from 0 to {count - 1}"
        ) from None
    return list(numbers), int(last)


def prefix_tokens(arch: Arch) -> int:
    """How many class tokens and registers stand before the patches where features are read."""
    if isinstance(arch.embed, ConvStem):
        return 0  # they join after the last point
    if isinstance(arch.embed, Patch):
        return arch.embed.prefix
    return 1


def describe(arch: Arch, *, per_stage: bool) -> list[dict[str, Any]]:
    """Name, width, reduction and grid after every block, or every stage, whose attention is not the class token's."""
    embed, front = arch.embed, prefix_tokens(arch)
    info: list[dict[str, Any]] = []
    reduction = prod(conv.stride for conv in embed.convs) if isinstance(embed, ConvStem) else embed.patch  # type: ignore[union-attr]
    for number, stage in enumerate(arch.stages):
        if class_attentions(stage):
            continue
        if isinstance(stage.enter, Downsample):
            reduction *= stage.enter.kernel
        rows = round((stage.tokens - front) ** 0.5)
        for _ in range(1 if per_stage else stage.depth * len(stage.unit)):
            module = f"stages.{number}" if per_stage else f"blocks.{len(info)}"
            info.append({"module": module, "num_chs": stage.width, "reduction": reduction, "grid": rows})
    return info
