"""Keys and values kept while text is generated, so that a new token costs one token: memory of a fixed size, written in
place, which a CUDA graph can replay."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from .sdpa import attend


class Kept:
    """Keys and values of one attention. The memory is taken when the first tokens come, in their precision."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.keys = self.values = torch.empty(0)

    def attend(
        self,
        q: Float[Tensor, "batch heads tokens head_dim"],
        k: Float[Tensor, "batch kv_heads tokens head_dim"],
        v: Float[Tensor, "batch kv_heads tokens head_dim"],
    ) -> Float[Tensor, "batch heads tokens head_dim"]:
        """Keep these tokens' keys and values, and let each look at all tokens up to itself."""
        cache = self.cache
        if self.keys.numel() == 0:
            batch, kv_heads, _, head_dim = v.shape
            self.keys, self.values = (v.new_zeros(batch, kv_heads, cache.room, head_dim) for _ in range(2))
        places = cache.at + cache.steps[: q.shape[2]]
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)
        if cache.length == 0:
            return attend(q, k, v, causal=True)
        seen = cache.steps <= places[:, None]  # tokens x room
        groups = q.shape[1] // k.shape[1]
        if groups == 1:
            return functional.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
        # the queries that share keys stand below each other: nothing is repeated
        stacked = q.unflatten(1, (-1, groups)).flatten(2, 3)
        heads = functional.scaled_dot_product_attention(
            stacked, self.keys, self.values, attn_mask=seen.repeat(groups, 1)
        )
        return heads.unflatten(2, (groups, -1)).flatten(1, 2)


class Cache:
    """What `layers` attentions keep of at most `room` tokens. `length` tokens are held; `at` says so on the device.

    A model's `features(ids, cache=...)` adds tokens; `advance` then counts them."""

    def __init__(self, layers: int, room: int, device: torch.device) -> None:
        self.room = -(-room // 8) * 8  # kernels with a mask like rows of whole eights
        self.steps = torch.arange(self.room, device=device)
        self.at = torch.zeros((), dtype=torch.int64, device=device)
        self.length = 0
        self.layers = [Kept(self) for _ in range(layers)]

    def places(self, ids: Int[Tensor, "batch tokens"]) -> Int[Tensor, " tokens"]:
        """Positions of the tokens that come next."""
        return self.at + self.steps[: ids.shape[1]]

    def advance(self, tokens: int) -> None:
        """So many tokens more are held."""
        self.length += tokens
        self.at.add_(tokens)

    def clear(self) -> None:
        """Hold nothing; the memory stays."""
        self.length = 0
        self.at.zero_()

    @property
    def bytes(self) -> int:
        """Memory taken for keys and values."""
        return sum(tensor.nbytes for kept in self.layers for tensor in (kept.keys, kept.values))
