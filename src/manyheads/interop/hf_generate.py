"""Next-token prediction in transformers' hands: the model class that `generate` calls, and the cache it writes to."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from manyheads.models.generate import positions
from manyheads.nn.attention import SoftmaxAttention
from manyheads.nn.inputs import pair_mask
from manyheads.spec.errors import UserError, optional
from manyheads.spec.parts import Lm

from .hf_base import ManyheadsPreTrained
from .hf_config import transformers
from .hf_inputs import documents, padding_mask, read_ids, read_positions, read_segments, read_text, refuse_foreign
from .hf_models import outputs, tokens_loss

masking: Any = optional("transformers.masking_utils", "manyheads[hf]")


class Past:
    """A transformers cache during one call, in the form of `nn.cache.Cache`: `layers` attend, `places` are the
    positions of the new tokens.

    `mask` is batch x all tokens, those in the cache first; or it says which keys each new token sees. The first real
    token of a row has position 0, so padding in front changes nothing. Any of transformers' caches will do, because all
    store and return keys and values through `update`."""

    def __init__(self, cache: Any, layers: int, ids: Tensor, mask: Tensor | None, limit: int) -> None:
        self.cache = cache
        self.before = int(cache.get_seq_length())
        self.total = self.before + ids.shape[1]
        if self.total > limit:
            raise UserError(
                f"{self.total} tokens, {self.before} of them in the cache; this model has positions for "
                f"{limit}. Generate fewer, or build it with tokens={self.total}"
            )
        if mask is not None and mask.ndim == 4:
            mask = pair_mask(mask, ids)
        elif mask is not None and mask.shape != (ids.shape[0], self.total):
            raise UserError(
                f"attention_mask is of shape {tuple(mask.shape)}; {self.before} tokens in the cache and "
                f"{ids.shape[1]} new ones in {ids.shape[0]} rows need {(ids.shape[0], self.total)}"
            )
        self.mask = mask
        self.layers = [PastLayer(self, number) for number in range(layers)]

    def places(self, ids: Tensor) -> Tensor:
        """Positions of the new tokens: the same for all rows, or per row where padding stands in front."""
        steps = torch.arange(self.before, self.total, device=ids.device)
        if self.mask is None or self.mask.ndim == 4:
            return steps
        lead = (self.mask.cumsum(dim=1) == 0).sum(dim=1, keepdim=True)
        return (steps - lead).clamp(min=0)


class PastLayer:
    """The part of the cache that belongs to one attention."""

    def __init__(self, past: Past, number: int) -> None:
        self.past, self.number = past, number

    def attend(self, q: Tensor, k: Tensor, v: Tensor, attention: SoftmaxAttention) -> Tensor:
        """Store the new tokens' keys and values; `attention` attends causally over all real tokens, or as the mask of
        queries and keys says."""
        past = self.past
        keys, values = past.cache.update(k, v, self.number)
        if past.mask is not None and past.mask.ndim == 4:
            room = min(keys.shape[2], past.mask.shape[3])
            return attention.attend(
                q, keys[:, :, :room], values[:, :, :room], causal=False, mask=past.mask[..., :room], before=past.before
            )
        # a cache of fixed size returns its whole room
        keys, values = keys[:, :, : past.total], values[:, :, : past.total]
        mask = None if past.mask is None else past.mask[:, None, None]
        return attention.attend(q, keys, values, causal=True, mask=mask)


def _select(x: Tensor, which: int | Tensor) -> Tensor:
    """The last `which` positions, all positions for 0, or the positions that a tensor lists."""
    return x[:, which] if isinstance(which, Tensor) else x[:, -which:] if which else x


class ManyheadsForCausalLM(ManyheadsPreTrained, transformers.GenerationMixin):
    """Next-token prediction. With a cache (from `generate`, or made for `use_cache=True`) only new tokens are
    computed."""

    heads = (Lm,)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        logits_to_keep: int | Tensor = 0,
        num_items_in_batch: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Logits of the token that follows each; with `labels`, which are the ids themselves, their loss."""
        refuse_foreign(kwargs, position_ids)
        recomputes = self.training and self.is_gradient_checkpointing  # a second time it would store the same keys
        if past_key_values is None and use_cache and not recomputes:
            past_key_values = transformers.DynamicCache(config=self.config)
        if past_key_values is None:
            ids, mask, given = read_text(
                self.model, input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds
            )
            x, left = self.watch(
                lambda: self.model.features(ids, mask, **given), output_hidden_states, output_attentions
            )
        elif recomputes:
            raise UserError(
                "past_key_values were given to a model in training that recomputes its activations; leave them out, or "
                "call gradient_checkpointing_disable()"
            )
        else:
            ids = read_ids(input_ids, inputs_embeds)
            given = read_segments(self.model, token_type_ids) | read_positions(position_ids)
            mask = padding_mask(attention_mask)
            past = Past(past_key_values, len(self.model.blocks), ids, mask, positions(self.model.arch))
            if attention_mask is None and given and not past.before:
                past.mask = documents(given["places"])
            x, left = self.watch(
                lambda: self.model.features(ids, cache=past, **given), output_hidden_states, output_attentions
            )
        logits = self.model.head(_select(x, logits_to_keep), self.model.embed.vocab.weight)
        loss = None if labels is None else tokens_loss(logits[:, :-1], labels[:, 1:], num_items_in_batch)
        output = outputs.CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values, **left)
        return self.finish(output, return_dict)

    @staticmethod
    def create_masks_for_generate(config: Any, attention_mask: Tensor | None = None, **kwargs: Any) -> Tensor | None:
        """The mask for a cache of fixed size. flex_attention makes its own from the padding mask."""
        if config._attn_implementation == "flex_attention":
            return attention_mask
        made: Tensor | None = masking.create_masks_for_generate(config=config, attention_mask=attention_mask, **kwargs)
        return made
