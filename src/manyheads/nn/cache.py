"""A cache of keys and values for generating text: a new token costs the work of one token. Its memory has a fixed size
and is written in place, so that a CUDA graph can replay a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .sdpa import attend

if TYPE_CHECKING:
    from .attention import SoftmaxAttention


class Kept:
    """Keys and values of one attention. The memory is allocated with the first tokens, in their precision."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.keys = self.values = torch.empty(0)

    def attend(
        self,
        q: Float[Tensor, "batch heads tokens head_dim"],
        k: Float[Tensor, "batch kv_heads tokens head_dim"],
        v: Float[Tensor, "batch kv_heads tokens head_dim"],
        attention: SoftmaxAttention,
    ) -> Float[Tensor, "batch heads tokens head_dim"]:
        """Store these tokens' keys and values, and let each token attend to the tokens up to itself that the window of
        `attention` holds. Tokens that have left it stay in memory."""
        cache = self.cache
        if self.keys.numel() == 0:
            batch, kv_heads, _, head_dim = v.shape
            self.keys, self.values = (v.new_zeros(batch, kv_heads, cache.room, head_dim) for _ in range(2))
        places = cache.at + cache.steps[: q.shape[2]]
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)
        mix = attention.mix
        scores = {"scale": mix.scale, "cap": mix.cap}
        if cache.length == 0:
            return attend(q, k, v, causal=True, window=mix.window, **scores)
        seen = cache.steps <= places[:, None]  # tokens x room
        if mix.window is not None:
            seen &= cache.steps > places[:, None] - mix.window
        groups = q.shape[1] // k.shape[1]
        if groups == 1:
            return attend(q, self.keys, self.values, mask=seen, **scores)
        # Queries that share keys are stacked, so that no keys are repeated.
        stacked = q.unflatten(1, (-1, groups)).flatten(2, 3)
        heads = attend(stacked, self.keys, self.values, mask=seen.repeat(groups, 1), **scores)
        return heads.unflatten(2, (groups, -1)).flatten(1, 2)


class Cache:
    """The cache of a model with `layers` attentions, for at most `room` tokens. It holds `length` tokens; `at` is that
    number on the device.

    A model's `features(ids, cache=...)` adds tokens; `advance` then counts them."""

    def __init__(self, layers: int, room: int, device: torch.device) -> None:
        self.room = -(-room // 8) * 8  # kernels that take a mask are faster with rows of multiples of 8
        self.steps = torch.arange(self.room, device=device)
        self.at = torch.zeros((), dtype=torch.int64, device=device)
        self.length = 0
        self.layers = [Kept(self) for _ in range(layers)]

    def places(self, ids: Int[Tensor, "batch tokens"]) -> Int[Tensor, " tokens"]:
        """Positions of the tokens that come next."""
        return self.at + self.steps[: ids.shape[1]]

    def advance(self, tokens: int) -> None:
        """Count `tokens` more tokens as held."""
        self.length += tokens
        self.at.add_(tokens)

    def clear(self) -> None:
        """Forget all tokens; the memory stays allocated."""
        self.length = 0
        self.at.zero_()

    @property
    def bytes(self) -> int:
        """Memory allocated for keys and values."""
        return sum(tensor.nbytes for kept in self.layers for tensor in (kept.keys, kept.values))
