"""What all our transformers model classes share: the module, how attention is computed, what a call leaves behind, and
a vocabulary that can be resized. `hf_models` and `hf_generate` have the classes for each head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from manyheads.models.build import build
from manyheads.nn.attention import QkvAttention, SoftmaxAttention
from manyheads.nn.block import Block
from manyheads.nn.heads import LmHead, MaskedHead
from manyheads.nn.positions import PositionTable
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Pixel, Token
from manyheads.spec.recipe import Rates

from .hf_config import ManyheadsConfig, transformers

DRAWN = "_is_hf_initialized"  # transformers' mark of a module or a parameter that is not to be drawn any more


class ManyheadsPreTrained(transformers.PreTrainedModel):
    """The module in `model`, built from the configuration's record."""

    config_class = ManyheadsConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _no_split_modules = ("TransformerBlock", "XcitBlock", "ClassBlock", "XcitClassBlock", "TntBlock", "DavitBlock")
    _supports_sdpa = True
    _supports_flex_attn = True
    heads: tuple[type, ...] = ()
    model: Any  # torch types a submodule as Tensor | Module

    def __init__(self, config: ManyheadsConfig) -> None:
        super().__init__(config)
        arch = self.with_head(config.record())
        self.model = build(arch, Rates(**config.rates))
        config.arch = record.to_dict(arch)
        self.main_input_name = "input_ids" if isinstance(arch.embed, Token) else "pixel_values"
        if not any(parameter.is_meta for parameter in self.model.parameters()):
            for part in self.model.modules():  # `build` drew the family's initial weights; keep them
                setattr(part, DRAWN, True)
        self._choose_attention()
        self.post_init()

    def with_head(self, arch: Arch) -> Arch:
        """`arch` with a head that this class can use, or an error where it has another one."""
        if self.heads and not isinstance(arch.head, self.heads):
            from .hf import class_for  # that module needs this one

            names = " or ".join(kind.__name__ for kind in self.heads)
            raise UserError(
                f"{type(self).__name__} needs a {names} head, and this record has {type(arch.head).__name__}; "
                f"load it with {class_for(arch).__name__}"
            )
        return arch

    @torch.no_grad()
    def initialize_weights(self) -> None:
        """Draw what a checkpoint lacks, such as a new head, as the family draws it; fill tables that are never saved."""
        lacking = [
            (f"{at}.{name}".lstrip("."), parameter)
            for at, part in self.model.named_modules()
            for name, parameter in part.named_parameters(recurse=False)
            if not getattr(part, DRAWN, False) and not getattr(parameter, DRAWN, False)
        ]
        if lacking:
            state = build(self.model.arch, device="cpu").state_dict()
            for name, parameter in lacking:
                parameter.copy_(state[name])
                setattr(parameter, DRAWN, True)
        super().initialize_weights()

    def _init_weights(self, module: nn.Module) -> None:
        """Fill a table that is never saved; transformers passes every module."""
        if isinstance(module, PositionTable):
            module.reset()

    # ---------------------------------------------------------------------------------------- how attention is computed
    def set_attn_implementation(self, attn_implementation: str | dict[str, str], **kwargs: Any) -> None:
        """Compute attention by `sdpa` (the fastest kernel there is), `flex_attention`, or `eager`, which forms the maps."""
        super().set_attn_implementation(attn_implementation, **kwargs)
        self._choose_attention()

    def _choose_attention(self) -> None:
        how = self.config._attn_implementation
        blocks = [part for part in self.model.modules() if isinstance(part, Block)]
        if how == "flex_attention" and not all(isinstance(_mixer(block), SoftmaxAttention) for block in blocks):
            raise UserError(
                f"flex_attention computes softmax attention over all tokens, and this model has {self._other_mixers()}; "
                "take sdpa or eager"
            )
        for part in self.model.modules():
            if isinstance(part, QkvAttention):
                part.fused = how != "eager"
            if isinstance(part, SoftmaxAttention):
                part.flex = how == "flex_attention"

    def _other_mixers(self) -> str:
        blocks = (part for part in self.model.modules() if isinstance(part, Block))
        return ", ".join(sorted({type(_mixer(b)).__name__ for b in blocks} - {SoftmaxAttention.__name__}))

    # ------------------------------------------------------------------------------------------ what a call leaves behind
    def watch(
        self, call: Callable[[], Tensor], hidden_states: bool | None, attentions: bool | None
    ) -> tuple[Tensor, dict[str, tuple[Tensor, ...]]]:
        """`call()`, the tokens after the last layer, and, where they are asked for, `hidden_states` and `attentions`.

        Hidden states are what enters each layer, and at last the tokens as the head reads them, after its norm."""
        states: list[Tensor] | None = [] if _asked(hidden_states, self.config.output_hidden_states) else None
        maps: list[Tensor] | None = [] if _asked(attentions, self.config.output_attentions) else None
        if states is None and maps is None:
            return call(), {}
        blocks = [part for part in self.model.modules() if isinstance(part, Block)]
        if maps is not None:
            self._check_maps()
        self._hand_out(blocks, states, maps)
        try:
            x = call()
        finally:
            self._hand_out(blocks, None, None)
        left: dict[str, tuple[Tensor, ...]] = {}
        if states is not None:
            left["hidden_states"] = (*states, self.normed(x))
        if maps is not None:
            left["attentions"] = tuple(maps)
        return x, left

    def _hand_out(self, blocks: list[Block], states: list[Tensor] | None, maps: list[Tensor] | None) -> None:
        for block in blocks:
            block.watched = states
            mixer = _mixer(block)
            if isinstance(mixer, SoftmaxAttention):
                mixer.maps = maps

    def _check_maps(self) -> None:
        others = self._other_mixers()
        if others:
            raise UserError(
                f"output_attentions asks for maps of tokens x tokens, and this model has {others}, which never forms "
                "them; leave it out"
            )
        how = self.config._attn_implementation
        if how != "eager":
            raise UserError(
                f"output_attentions asks for maps that {how} never forms; load the model with "
                "attn_implementation='eager', or call set_attn_implementation('eager')"
            )

    def normed(self, x: Tensor) -> Tensor:
        """Tokens as the head reads them: after its norm, unless that norm comes after pooling."""
        head = self.model.head
        return x if getattr(head.spec, "norm_last", False) else head.norm(x)

    def finish(self, output: Any, return_dict: bool | None) -> Any:
        """The output, or a tuple of what it holds where no dictionary is wanted."""
        return output if _asked(return_dict, self.config.return_dict) else output.to_tuple()

    # ------------------------------------------------------------------------------------------- gradient checkpointing
    def _set_gradient_checkpointing(
        self, enable: bool = True, gradient_checkpointing_func: Callable[..., Any] = checkpoint, every_n_layers: int = 1
    ) -> None:
        """Recompute the activations of every so many layers in the backward pass, or keep them all."""
        blocks = [part for part in self.model.modules() if isinstance(part, Block)]
        for number, block in enumerate(blocks):
            block.recompute = gradient_checkpointing_func if enable and number % every_n_layers == 0 else None

    @property
    def is_gradient_checkpointing(self) -> bool:
        """Whether any layer recomputes its activations."""
        return any(part.recompute is not None for part in self.model.modules() if isinstance(part, Block))

    # ------------------------------------------------------------------------------------------------------- vocabulary
    def get_input_embeddings(self) -> nn.Module:
        """The vocabulary's table, or what makes tokens of an image."""
        embed = self.model.embed
        match self.model.arch.embed:
            case Token():
                embed = embed.vocab
            case Pixel():
                embed = embed.proj  # the whole makes pixels beside the tokens
        assert isinstance(embed, nn.Module)
        return embed

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the vocabulary's table, or what makes tokens of an image."""
        match self.model.arch.embed:
            case Token():
                self.model.embed.vocab = value
            case Pixel():
                self.model.embed.proj = value
            case _:
                self.model.embed = value

    def get_output_embeddings(self) -> nn.Linear | None:
        """The output matrix as a linear map that shares its parameters: those of the head or, for a tied head, those of
        the vocabulary's table. None for a classifier."""
        head = self.model.head
        if not isinstance(head, LmHead | MaskedHead):
            return None
        weight = self._own_matrix()
        weight = self.model.embed.vocab.weight if weight is None else weight
        linear = nn.Linear(weight.shape[1], weight.shape[0], bias=head.bias is not None, device="meta")
        linear.weight = weight
        if head.bias is not None:
            linear.bias = head.bias
        return linear

    def set_output_embeddings(self, new_embeddings: nn.Module) -> None:
        """Replace the output matrix of a head that has its own."""
        head, weight = self.model.head, new_embeddings.weight
        if self._own_matrix() is not None:
            head.weight = weight
        elif weight is not self.model.embed.vocab.weight:
            raise UserError(
                "the output matrix of this model is the vocabulary's table; set that with set_input_embeddings"
            )
        if head.bias is not None and getattr(new_embeddings, "bias", None) is not None:
            head.bias = new_embeddings.bias

    def _own_matrix(self) -> nn.Parameter | None:
        head = self.model.head
        return head.weight if isinstance(head, LmHead) else None

    def _resize_token_embeddings(
        self, new_num_tokens: int | None, pad_to_multiple_of: int | None = None, mean_resizing: bool = True
    ) -> nn.Module:
        """A table, an output matrix, a bias and a record of another number of tokens. New rows are drawn as
        transformers draws them; new entries of a tied head's bias are 0."""
        arch, head, before = self.model.arch, self.model.head, self.get_input_embeddings()
        if not isinstance(arch.embed, Token):
            raise UserError("an image model has no vocabulary to resize")
        linear = self.get_output_embeddings()
        table = self._get_resized_embeddings(before, new_num_tokens, pad_to_multiple_of, mean_resizing)
        self.set_input_embeddings(table)
        tokens = table.weight.shape[0]
        if self._own_matrix() is not None:
            self.set_output_embeddings(self._get_resized_lm_head(linear, tokens, mean_resizing=mean_resizing))
        elif isinstance(head, LmHead | MaskedHead) and head.bias is not None:
            bias = head.bias.detach()
            longer = F.pad(bias, (0, max(0, tokens - len(bias))))[:tokens].clone()
            head.bias = nn.Parameter(longer, requires_grad=head.bias.requires_grad)
        self.model.arch = replace(arch, embed=replace(arch.embed, vocab=tokens))
        self.model.embed.spec = self.model.arch.embed
        self.config.arch = record.to_dict(self.model.arch)
        return table


def _mixer(block: Block) -> nn.Module:
    """What mixes the tokens of a layer."""
    return block.attention.op  # type: ignore[union-attr,return-value]


def _asked(argument: bool | None, configured: Any) -> bool:
    return bool(configured if argument is None else argument)
