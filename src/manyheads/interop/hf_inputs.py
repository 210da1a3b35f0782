"""The arguments of a transformers model as those of ours: ids or vectors, masks, positions, segments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from manyheads.nn.inputs import readable
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Lm

# arguments that transformers' classes know and that change a result here if they were left out in silence
FOREIGN = {
    "encoder_hidden_states": "no layer attends to another model's tokens",
    "encoder_attention_mask": "no layer attends to another model's tokens",
    "past_key_values": "only ManyheadsForCausalLM continues a text",
    "head_mask": "no head is masked; redesign the model with fewer heads",
}


def read_text(
    model: Any,
    input_ids: Tensor | None,
    attention_mask: Tensor | None = None,
    token_type_ids: Tensor | None = None,
    position_ids: Tensor | None = None,
    inputs_embeds: Tensor | None = None,
) -> tuple[Tensor, Tensor | None, dict[str, Tensor]]:
    """Ids, mask and the other arguments of `model.features`.

    In a causal model the first real token of a row has position 0 unless `position_ids` say otherwise, and where these
    begin anew, without an attention mask, so does a document: it sees nothing of those before."""
    ids, mask = read_ids(input_ids, inputs_embeds), padding_mask(attention_mask)
    given = read_segments(model, token_type_ids) | read_positions(position_ids)
    if isinstance(model.arch.head, Lm):
        if not given:
            given = from_padding(ids, mask)
        elif attention_mask is None:
            mask = documents(given["places"])
    return ids, mask, given


def refuse_foreign(kwargs: Mapping[str, Any], position_ids: Tensor | None = None) -> None:
    """Refuse arguments that cannot be ignored. The rest, such as a dataset's other columns, is ignored as transformers
    does."""
    for name, reason in FOREIGN.items():
        if kwargs.get(name) is not None:
            raise UserError(f"{name} was given, but {reason}; leave it out")
    if kwargs.get("cu_seq_lens_q") is not None and position_ids is None:
        raise UserError(
            "cu_seq_lens_q divides packed documents, and this model divides them by position_ids; give those, as "
            "DataCollatorWithFlattening does"
        )


def read_ids(input_ids: Tensor | None, inputs_embeds: Tensor | None) -> Tensor:
    """The ids, or the vectors in their place; one of both."""
    if (input_ids is None) == (inputs_embeds is None):
        raise UserError("give either input_ids or inputs_embeds: one of both, not two and not none")
    if inputs_embeds is None:
        assert input_ids is not None
        return input_ids
    if inputs_embeds.ndim != 3 or not inputs_embeds.is_floating_point():
        raise UserError(
            f"inputs_embeds is {inputs_embeds.dtype} of shape {tuple(inputs_embeds.shape)}; write vectors, batch x "
            "tokens x width"
        )
    return inputs_embeds


def padding_mask(attention_mask: Tensor | None) -> Tensor | None:
    """A boolean mask, or None where every token is known to be real. A mask of four dimensions says which keys each
    query sees: it stays, and its numbers are added to the scores if they are not whole."""
    if attention_mask is None:
        return None
    if attention_mask.ndim == 4:
        return attention_mask if attention_mask.is_floating_point() else attention_mask.bool()
    real: Tensor = attention_mask.bool()
    return None if readable(real) and bool(real.all()) else real


def read_positions(position_ids: Tensor | None) -> dict[str, Tensor]:
    """Positions as an argument. One row stands for all."""
    if position_ids is None:
        return {}
    return {"places": position_ids[None] if position_ids.ndim == 1 else position_ids}


def read_segments(model: Any, token_type_ids: Tensor | None) -> dict[str, Tensor]:
    """Segment types as an argument, for a model whose record has them. A tokenizer may give zeros for any model."""
    if token_type_ids is None:
        return {}
    if model.arch.embed.types:
        return {"types": token_type_ids}
    if readable(token_type_ids) and bool(token_type_ids.any()):
        raise UserError("token_type_ids has other segments than 0, and this model has no segments; leave it out")
    return {}


def from_padding(ids: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
    """Positions where padding stands in front of a row, counted from the first real token."""
    if mask is None or mask.ndim != 2 or mask.shape != ids.shape[:2]:
        return {}
    front = (mask.cumsum(dim=1) == 0).sum(dim=1, keepdim=True)
    if readable(front) and not bool(front.any()):
        return {}
    return {"places": (torch.arange(ids.shape[1], device=ids.device) - front).clamp(min=0)}


def documents(places: Tensor) -> Tensor | None:
    """Which keys each query of packed documents sees: those of its own document up to itself; None for one document.

    A document begins where a position is not the one before plus 1, as transformers divides them."""
    step = places.diff(dim=1, prepend=places[:, :1] - 1) != 1
    if readable(step) and not bool(step.any()):
        return None
    number, steps = step.cumsum(dim=1), torch.arange(places.shape[1], device=places.device)
    return ((number[:, :, None] == number[:, None]) & (steps[:, None] >= steps))[:, None]
