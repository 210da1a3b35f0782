"""transformers model classes around our modules, one for each kind of head, and their losses.

`hf_generate` has the class for next-token prediction, and `hf` exports and registers all of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from torch import Tensor
from torch.nn import functional as F

from manyheads.models.vit import ViT
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError, optional
from manyheads.spec.parts import Classify, Features, Masked, Patch, Token

from .hf_base import ManyheadsPreTrained
from .hf_inputs import read_text, refuse_foreign

outputs: Any = optional("transformers.modeling_outputs", "manyheads[hf]")

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


class ManyheadsModel(ManyheadsPreTrained):
    """AutoModel's class: tokens after the last layer and, as transformers' own models give them, after the norm that
    stands behind it."""

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        pixel_values: Tensor | None = None,
        bool_masked_pos: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """`last_hidden_state`; `pooler_output`, where the record has a pooler; hidden states and attention maps, where they
        are asked for."""
        if pixel_values is not None:
            hidden = {} if bool_masked_pos is None else {"hidden": bool_masked_pos.bool()}
            if hidden and not isinstance(self.model, ViT):
                raise UserError(
                    "bool_masked_pos hides patches of a model with a mask token, and this has none; leave it out"
                )
            x, left = self.watch(
                lambda: self.model.features(pixel_values, **hidden), output_hidden_states, output_attentions
            )
        else:
            refuse_foreign(kwargs, position_ids)
            ids, mask, given = read_text(
                self.model, input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds
            )
            x, left = self.watch(
                lambda: self.model.features(ids, mask, **given), output_hidden_states, output_attentions
            )
        last = left["hidden_states"][-1] if "hidden_states" in left else self.normed(x)
        head = self.model.arch.head
        if isinstance(head, Features) and head.pooler is not None:
            pooled = self.model.head.pooled(last, input_ids)
            result = outputs.BaseModelOutputWithPooling(last_hidden_state=last, pooler_output=pooled, **left)
            return self.finish(result, return_dict)
        return self.finish(outputs.BaseModelOutput(last_hidden_state=last, **left), return_dict)


class ManyheadsForMaskedLM(ManyheadsPreTrained):
    """Masked-token prediction; labels of -100 are not predicted. A model without a head gets BERT's."""

    heads = (Masked,)

    def with_head(self, arch: Arch) -> Arch:
        """`arch`, with BERT's head where it has none."""
        if isinstance(arch.head, Features) and isinstance(arch.embed, Token):
            return replace(arch, head=Masked(bias=True, transform=True, norm=arch.head.norm))
        return super().with_head(arch)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        num_items_in_batch: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Logits over the vocabulary for every token; with `labels`, their loss."""
        refuse_foreign(kwargs, position_ids)
        ids, mask, given = read_text(self.model, input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        x, left = self.watch(lambda: self.model.features(ids, mask, **given), output_hidden_states, output_attentions)
        logits = self.model.head(x, self.model.embed.vocab.weight)
        loss = None if labels is None else tokens_loss(logits, labels, num_items_in_batch)
        return self.finish(outputs.MaskedLMOutput(loss=loss, logits=logits, **left), return_dict)


class ManyheadsForImageClassification(ManyheadsPreTrained):
    """Classification of images. Both classifiers of a distilled model learn the labels. A model without a head gets a
    classifier."""

    heads = (Classify,)
    accepts_loss_kwargs = False  # the loss is a mean over this batch, so the Trainer divides by its accumulation steps

    def with_head(self, arch: Arch) -> Arch:
        """`arch`, with a classifier where it has no head."""
        if isinstance(arch.head, Features) and isinstance(arch.embed, Patch):
            pool: Literal["class", "mean"] = "class" if arch.embed.class_tokens else "mean"
            return replace(arch, head=Classify(self.config.num_labels, pool, arch.head.norm))
        return super().with_head(arch)

    def forward(
        self,
        pixel_values: Tensor,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Logits of the classes; with `labels`, their loss."""
        refuse_foreign(kwargs)
        x, left = self.watch(lambda: self.model.features(pixel_values), output_hidden_states, output_attentions)
        logits = self.model.head(x)
        loss = None if labels is None else classes_loss(logits, labels, self.config)
        logits = logits.mean(0) if logits.ndim == 3 else logits
        return self.finish(outputs.ImageClassifierOutput(loss=loss, logits=logits, **left), return_dict)


class ManyheadsForSequenceClassification(ManyheadsPreTrained):
    """Classification of texts. BERT's pooler and classifier replace a masked-language head, or stand where there is no
    head."""

    heads = (Classify,)
    accepts_loss_kwargs = False

    def with_head(self, arch: Arch) -> Arch:
        """`arch`, with a classifier on the first token in place of a masked-language head or of none."""
        if isinstance(arch.head, Masked | Features) and isinstance(arch.embed, Token):
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
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Logits of the classes; with `labels`, their loss."""
        refuse_foreign(kwargs, position_ids)
        ids, mask, given = read_text(self.model, input_ids, attention_mask, token_type_ids, position_ids, inputs_embeds)
        x, left = self.watch(lambda: self.model.features(ids, mask, **given), output_hidden_states, output_attentions)
        logits = self.model.head(x, mask)
        loss = None if labels is None else classes_loss(logits, labels, self.config)
        return self.finish(outputs.SequenceClassifierOutput(loss=loss, logits=logits, **left), return_dict)
