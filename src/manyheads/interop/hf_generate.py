"""Next-token prediction in transformers' hands: the model class that `generate` calls, and the cache it writes to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from manyheads.models.generate import positions
from manyheads.nn.sdpa import attend
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Lm

from .hf_models import ManyheadsPreTrained, outputs, padding_mask, tokens_loss, transformers


class Past:
    """A transformers cache during one call, in the form of `nn.cache.Cache`: `layers` attend, `places` are the
    positions of the new tokens.

    `mask` is batch x all tokens, those in the cache first. The first real token of a row has position 0, so padding in
    front changes nothing. Any of transformers' caches will do, because all store and return keys and values through
    `update`."""

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
                f"attention_mask is of shape {tuple(mask.shape)}; {self.before} tokens in the cache and "
                f"{ids.shape[1]} new ones in {ids.shape[0]} rows need {(ids.shape[0], self.total)}"
            )
        self.mask = mask
        self.layers = [PastLayer(self, number) for number in range(layers)]

    def places(self, ids: Tensor) -> Tensor:
        """Positions of the new tokens: the same for all rows, or per row where padding stands in front."""
        steps = torch.arange(self.before, self.total, device=ids.device)
        if self.mask is None:
            return steps
        lead = (self.mask.cumsum(dim=1) == 0).sum(dim=1, keepdim=True)
        return (steps - lead).clamp(min=0)


class PastLayer:
    """The part of the cache that belongs to one attention."""

    def __init__(self, past: Past, number: int) -> None:
        self.past, self.number = past, number

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store the new tokens' keys and values, and attend causally over all real tokens."""
        past = self.past
        keys, values = past.cache.update(k, v, self.number)
        # a cache of fixed size returns its whole room
        keys, values = keys[:, :, : past.total], values[:, :, : past.total]
        mask = None if past.mask is None else past.mask[:, None, None]
        return attend(q, keys, values, causal=True, mask=mask)


def _select(x: Tensor, which: int | Tensor) -> Tensor:
    """The last `which` positions, all positions for 0, or the positions that a tensor lists."""
    return x[:, which] if isinstance(which, Tensor) else x[:, -which:] if which else x


class ManyheadsForCausalLM(ManyheadsPreTrained, transformers.GenerationMixin):
    """Next-token prediction. With a cache (from `generate`, or made for `use_cache=True`) only new tokens are
    computed."""

    heads = (Lm,)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: Any = None,
        **_: Any,
    ) -> Any:
        mask = padding_mask(attention_mask)
        if past_key_values is None and use_cache:
            past_key_values = transformers.DynamicCache(config=self.config)
        if past_key_values is not None:
            past = Past(past_key_values, len(self.model.blocks), input_ids, mask, positions(self.model.arch))
            x = self.model.features(input_ids, cache=past)
            logits = self.model.head(_select(x, logits_to_keep), self.model.embed.vocab.weight)
        else:
            logits = self.model(input_ids) if mask is None else self._padded(input_ids, mask)
            logits = _select(logits, logits_to_keep)
        loss = None if labels is None else tokens_loss(logits[:, :-1], labels[:, 1:], num_items_in_batch)
        return outputs.CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)

    def _padded(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Logits of padded sequences. Padding in front is rotated to the end, so that the first real token has the
        first position; the logits are rotated back."""
        lead = (mask.cumsum(dim=1) == 0).sum(dim=1, keepdim=True)
        steps = torch.arange(ids.shape[1], device=ids.device)
        turned, back = (steps + lead) % ids.shape[1], (steps - lead) % ids.shape[1]
        logits: Tensor = self.model(ids.gather(1, turned), mask.gather(1, turned))
        return logits.take_along_dim(back[..., None], dim=1)

    def prepare_inputs_for_generation(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        """Arguments of the next forward: the tokens that the cache lacks, or the whole sequence without a cache."""
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, "logits_to_keep": 1}
        if past_key_values is None:
            return inputs | {"use_cache": use_cache}
        whole = input_ids if attention_mask is None else attention_mask  # the ids may be only the new ones
        new = max(1, whole.shape[1] - int(past_key_values.get_seq_length()))
        return inputs | {"input_ids": input_ids[:, -new:], "past_key_values": past_key_values}
