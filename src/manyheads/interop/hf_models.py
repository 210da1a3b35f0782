"""transformers model classes around our modules: a configuration that holds a record, and one class for each head.

`hf_generate` has the class for next-token prediction, and `hf` exports and registers all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.models.build import build
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch, attentions, editable
from manyheads.spec.errors import UserError, optional
from manyheads.spec.parts import Classify, Masked, Points, Token
from manyheads.spec.recipe import Rates

transformers: Any = optional("transformers", "manyheads[hf]")
outputs: Any = optional("transformers.modeling_outputs", "manyheads[hf]")


class ManyheadsConfig(transformers.PretrainedConfig):
    """A record as a Hugging Face configuration. Only `arch` counts; sizes are repeated under their usual names for
    other tools."""

    model_type = "manyheads"

    def __init__(
        self, arch: Arch | Mapping[str, Any] | None = None, rates: Mapping[str, float] | None = None, **kwargs: Any
    ) -> None:
        if isinstance(arch, Mapping):
            arch = record.arch_from_dict(dict(arch))
        self.arch = None if arch is None else record.to_dict(arch)
        self.rates = dict(rates or {})
        if arch is not None:
            kwargs |= _usual_names(arch, kwargs)
        super().__init__(**({"tie_word_embeddings": False, "use_cache": True} | kwargs))

    def record(self) -> Arch:
        """The architecture, with as many classes as there are labels."""
        if self.arch is None:
            raise UserError("this configuration has no arch; write ManyheadsConfig(arch=RECORD)")
        arch = record.arch_from_dict(self.arch)
        if isinstance(arch.head, Classify) and self.num_labels != arch.head.classes:
            arch = replace(arch, head=replace(arch.head, classes=self.num_labels))
        return arch


def _usual_names(arch: Arch, kwargs: dict[str, Any]) -> dict[str, Any]:
    """What other tools look for in a configuration: sizes under their usual names, and the number of labels. The sizes
    come from the record even where a file has its own."""
    stage = arch.stages[editable(arch)[-1]]
    op = attentions(stage)[0]
    sizes: dict[str, Any] = {
        "hidden_size": stage.width,
        "num_hidden_layers": sum(arch.stages[i].depth for i in editable(arch)),
        "num_attention_heads": op.heads,
        "head_dim": op.head_dim,
        "num_key_value_heads": op.kv_heads or op.heads,
    }
    if isinstance(arch.embed, Token):
        sizes |= {
            "vocab_size": arch.embed.vocab,
            "max_position_embeddings": arch.embed.positions or arch.stages[0].tokens,
        }
    elif not isinstance(arch.embed, Points):
        sizes |= {"image_size": arch.embed.image, "num_channels": arch.embed.channels}
    if isinstance(arch.head, Classify) and not {"num_labels", "id2label"} & kwargs.keys():
        sizes["num_labels"] = arch.head.classes
    return sizes


IGNORED = -100  # the label of a token that is not predicted


def tokens_loss(logits: Tensor, labels: Tensor, items: Any = None) -> Tensor:
    """Cross-entropy over the vocabulary. The Trainer gives `items`, the number of labels in the whole accumulated
    batch; without it the loss is the mean over this batch."""
    rows, targets = logits.flatten(0, -2).float(), labels.flatten().to(logits.device)
    if items is None:
        return F.cross_entropy(rows, targets, ignore_index=IGNORED)
    total = F.cross_entropy(rows, targets, ignore_index=IGNORED, reduction="sum")
    return total / (items.to(total.device) if isinstance(items, Tensor) else items)


def classes_loss(logits: Tensor, labels: Tensor, config: Any) -> Tensor:
    """Squared error for one label, cross-entropy for several, binary cross-entropy for a `problem_type` of
    multi-label classification. The loss of a distilled model (2 x batch x classes) is the mean over its classifiers."""
    if logits.ndim == 3:
        return (classes_loss(logits[0], labels, config) + classes_loss(logits[1], labels, config)) / 2
    kind = config.problem_type or ("regression" if logits.shape[-1] == 1 else "single_label_classification")
    if kind == "regression":
        return F.mse_loss(logits.squeeze(-1).float(), labels.squeeze(-1).float() if labels.ndim > 1 else labels.float())
    if kind == "multi_label_classification":
        return F.binary_cross_entropy_with_logits(logits.float(), labels.float())
    return F.cross_entropy(logits.float(), labels.flatten())


class ManyheadsPreTrained(transformers.PreTrainedModel):
    """What all model classes share: the module in `model`, built from the configuration's record."""

    config_class = ManyheadsConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    _no_split_modules = ("Block",)
    _supports_sdpa = True
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
                part._is_hf_initialized = True
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
    def _init_weights(self, module: nn.Module) -> None:
        """Fill tables that are never saved; draw tensors that a checkpoint lacks, such as a new head's."""
        reset = getattr(module, "reset", None)  # transformers passes every module: ours, torch's and its own
        if callable(reset):
            reset()
        else:
            super()._init_weights(module)

    def get_input_embeddings(self) -> nn.Module:
        """The vocabulary's table."""
        if not isinstance(self.model.arch.embed, Token):
            raise UserError("an image model has no vocabulary")
        table: nn.Module = self.model.embed.vocab
        return table

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Replace the vocabulary's table."""
        self.model.embed.vocab = value

    def get_output_embeddings(self) -> None:
        """None, since no module holds the output matrix: a tied head reads the vocabulary's table, an untied head has
        a parameter."""

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *_: Any, **__: Any) -> nn.Module:
        """Refuses another size, because the record states the vocabulary's."""
        table = self.get_input_embeddings()
        if new_num_tokens not in (None, table.num_embeddings):
            raise UserError(
                f"the embedding cannot be resized to {new_num_tokens} tokens, since this record has "
                f"{table.num_embeddings}; build a record with the vocabulary that you need"
            )
        return table


def padding_mask(attention_mask: Tensor | None) -> Tensor | None:
    """A boolean mask, or None where every token is real."""
    if attention_mask is None:
        return None
    real: Tensor = attention_mask.bool()
    return None if bool(real.all()) else real


def _segments(model: Any, token_type_ids: Tensor | None) -> dict[str, Tensor]:
    """Segment types as an argument, for a model whose record has them."""
    if token_type_ids is None or not model.arch.embed.types:
        return {}
    return {"types": token_type_ids}


class ManyheadsModel(ManyheadsPreTrained):
    """AutoModel's class: tokens after the last layer, before the head's norm."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        pixel_values: Tensor | None = None,
        **_: Any,
    ) -> Any:
        if pixel_values is not None:
            return outputs.BaseModelOutput(last_hidden_state=self.model.features(pixel_values))
        tokens = self.model.features(input_ids, padding_mask(attention_mask), **_segments(self.model, token_type_ids))
        return outputs.BaseModelOutput(last_hidden_state=tokens)


class ManyheadsForMaskedLM(ManyheadsPreTrained):
    """Masked-token prediction; labels of -100 are not predicted."""

    heads = (Masked,)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        num_items_in_batch: Any = None,
        **_: Any,
    ) -> Any:
        logits = self.model(input_ids, padding_mask(attention_mask), **_segments(self.model, token_type_ids))
        loss = None if labels is None else tokens_loss(logits, labels, num_items_in_batch)
        return outputs.MaskedLMOutput(loss=loss, logits=logits)


class ManyheadsForImageClassification(ManyheadsPreTrained):
    """Classification of images. Both classifiers of a distilled model learn the labels."""

    heads = (Classify,)
    accepts_loss_kwargs = False  # the loss is a mean over this batch, so the Trainer divides by its accumulation steps

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None, **_: Any) -> Any:
        logits = self.model(pixel_values)
        loss = None if labels is None else classes_loss(logits, labels, self.config)
        return outputs.ImageClassifierOutput(loss=loss, logits=logits.mean(0) if logits.ndim == 3 else logits)


class ManyheadsForSequenceClassification(ManyheadsPreTrained):
    """Classification of texts. BERT's pooler and classifier replace a masked-language head."""

    heads = (Classify,)
    accepts_loss_kwargs = False

    def with_head(self, arch: Arch) -> Arch:
        """`arch`, with a classifier on the first token in place of a masked-language head."""
        if isinstance(arch.head, Masked):
            classifier = Classify(
                self.config.num_labels, "class", arch.head.norm, hidden=arch.stages[-1].width, act="tanh"
            )
            return replace(arch, head=classifier)
        if not isinstance(arch.embed, Token):
            raise UserError(
                "ManyheadsForSequenceClassification reads text, and this record describes an image model; load it "
                "with ManyheadsForImageClassification"
            )
        return super().with_head(arch)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **_: Any,
    ) -> Any:
        logits = self.model(input_ids, padding_mask(attention_mask), **_segments(self.model, token_type_ids))
        loss = None if labels is None else classes_loss(logits, labels, self.config)
        return outputs.SequenceClassifierOutput(loss=loss, logits=logits)
