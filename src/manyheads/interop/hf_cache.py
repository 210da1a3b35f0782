"""transformers' cache of keys and values in the hands of the models here: what `generate` keeps between tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from manyheads.nn.sdpa import attend
from manyheads.spec.errors import UserError


class Past:
    """A transformers cache for one call, as `nn.cache.Cache` is to a model: `layers` that attend, `places` of new
    tokens.

    `mask` is batch x all tokens, those in the cache first; a row's first real token has position 0, so that padding in
    front changes nothing. Whatever class of cache it is, its `update` stores and gives back the keys and values."""

    def __init__(self, cache: Any, layers: int, ids: Tensor, mask: Tensor | None, limit: int) -> None:
        self.cache = cache
        self.before = int(cache.get_seq_length())
        self.total = self.before + ids.shape[1]
        if self.total > limit:
            raise UserError(
                f"{self.total} tokens, {self.before} of them in the cache; this model has positions for "
                f"{limit}. Generate fewer, or build it with tokens={self.total}"
            )
        if mask is not None and mask.shape != (ids.shape[0], self.total):
            raise UserError(
                f"attention_mask is of shape {tuple(mask.shape)}, and {self.before} tokens in the cache and "
                f"{ids.shape[1]} new ones in {ids.shape[0]} rows need {(ids.shape[0], self.total)}"
            )
        self.mask = mask
        self.layers = [PastLayer(self, number) for number in range(layers)]

    def places(self, ids: Tensor) -> Tensor:
        """Positions of the new tokens; of each row its own where padding stands in front."""
        steps = torch.arange(self.before, self.total, device=ids.device)
        if self.mask is None:
            return steps
        lead = (self.mask.cumsum(dim=1) == 0).sum(dim=1, keepdim=True)
        return (steps - lead).clamp(min=0)


class PastLayer:
    """What one attention keeps."""

    def __init__(self, past: Past, number: int) -> None:
        self.past, self.number = past, number

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Keep these tokens' keys and values, and let each look at all real tokens up to itself."""
        past = self.past
        keys, values = past.cache.update(k, v, self.number)
        keys, values = (
            kept[:, :, : past.total] for kept in (keys, values)
        )  # a cache of a fixed size gives all its room
        mask = None if past.mask is None else past.mask[:, None, None]
        return attend(q, keys, values, causal=True, mask=mask)
