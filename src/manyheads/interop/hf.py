"""manyheads models in Hugging Face's hands: `import manyheads.interop.hf`, and the Auto classes load what was exported.

A folder holds `config.json` (model_type `manyheads`, the record under `arch`) and `model.safetensors`. `export` writes
one from any built module; AutoModelForCausalLM, -MaskedLM, -ImageClassification and -SequenceClassification read it,
train it under the Trainer (labels give a loss) and save it again. `generate` keeps keys and values in transformers' own
caches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.data.text.vocabulary import Vocabulary
from manyheads.models.build import build
from manyheads.models.generate import positions
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Classify, Coordinates, Lm, Masked, Pair, Token
from manyheads.spec.rates import Rates

from .extras import needed
from .hf_cache import Past
from .hf_configuration import ManyheadsConfig
from .hf_loss import classes_loss, tokens_loss
from .hf_tokenizer import save_tokenizer

transformers: Any = needed("transformers", "hf")
outputs: Any = needed("transformers.modeling_outputs", "hf")


class ManyheadsPreTrained(transformers.PreTrainedModel):
    """What every class here shares: the module under `model`, built from the configuration's record."""

    config_class = ManyheadsConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    _no_split_modules = ("Block",)
    _supports_sdpa = True
    heads: tuple[type, ...] = ()
    model: Any  # torch would type what it holds as Tensor | Module

    def __init__(self, config: ManyheadsConfig) -> None:
        super().__init__(config)
        arch = self.headed(config.record())
        self.model = build(arch, Rates(**config.rates))
        config.arch = record.to_dict(arch)
        self.main_input_name = "input_ids" if isinstance(arch.embed, Token) else "pixel_values"
        if not any(parameter.is_meta for parameter in self.model.parameters()):
            for part in self.model.modules():  # drawn as the family's original draws them: not to be drawn again
                part._is_hf_initialized = True
        self.post_init()

    def headed(self, arch: Arch) -> Arch:
        """`arch` with a head that this class can use; refused where there is none."""
        if self.heads and not isinstance(arch.head, self.heads):
            names = " or ".join(kind.__name__ for kind in self.heads)
            raise UserError(
                f"{type(self).__name__} needs a {names} head, and this record has {type(arch.head).__name__}; "
                f"load it with {class_for(arch).__name__}"
            )
        return arch

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """Tables are filled; tensors that a checkpoint did not have (a new head) are drawn the usual way."""
        reset = getattr(module, "reset", None)
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
        """Put another table in its place."""
        self.model.embed.vocab = value

    def get_output_embeddings(self) -> None:
        """None: a tied head has no matrix of its own, an untied one is a parameter."""

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *_: Any, **__: Any) -> nn.Module:
        """The vocabulary belongs to the record: another size is refused."""
        table = self.get_input_embeddings()
        if new_num_tokens not in (None, table.num_embeddings):
            raise UserError(
                f"a vocabulary of {new_num_tokens} was asked for, and this record has {table.num_embeddings}; "
                "build a record with the vocabulary that is needed"
            )
        return table


def _mask(attention_mask: Tensor | None) -> Tensor | None:
    """A boolean mask, or None where every token is real."""
    if attention_mask is None:
        return None
    real: Tensor = attention_mask.bool()
    return None if bool(real.all()) else real


def _kinds(model: Any, token_type_ids: Tensor | None) -> dict[str, Tensor]:
    """Segment types, for a model that takes them."""
    if token_type_ids is None or model.arch.family != "bert" or not model.arch.embed.types:
        return {}
    return {"types": token_type_ids}


class ManyheadsModel(ManyheadsPreTrained):
    """Tokens after the last layer, before the head's norm: what AutoModel gives."""

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
        tokens = self.model.features(input_ids, _mask(attention_mask), **_kinds(self.model, token_type_ids))
        return outputs.BaseModelOutput(last_hidden_state=tokens)


def _kept(x: Tensor, which: int | Tensor) -> Tensor:
    """The last so many positions, those of a list, or all for 0."""
    return x[:, which] if isinstance(which, Tensor) else x[:, -which:] if which else x


class ManyheadsForCausalLM(ManyheadsPreTrained, transformers.GenerationMixin):
    """Next-token prediction. With a cache (`generate` brings one; `use_cache=True` makes one) only new tokens are
    read."""

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
        mask = _mask(attention_mask)
        if past_key_values is None and use_cache:
            past_key_values = transformers.DynamicCache(config=self.config)
        if past_key_values is not None:
            past = Past(past_key_values, len(self.model.blocks), input_ids, mask, positions(self.model.arch))
            x = self.model.features(input_ids, cache=past)
            logits = self.model.head(_kept(x, logits_to_keep), self.model.embed.vocab.weight)
        else:
            logits = self.model(input_ids) if mask is None else self._padded(input_ids, mask)
            logits = _kept(logits, logits_to_keep)
        loss = None if labels is None else tokens_loss(logits[:, :-1], labels[:, 1:], num_items_in_batch)
        return outputs.CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)

    def _padded(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Logits of padded sequences. Padding in front is turned to the end, so that the first real token has the first
        position, and the logits are turned back."""
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
        """The tokens that the cache does not hold; without one the whole sequence, at every step."""
        given = {"input_ids": input_ids, "attention_mask": attention_mask, "logits_to_keep": 1}
        if past_key_values is None:
            return given | {"use_cache": use_cache}
        whole = input_ids if attention_mask is None else attention_mask  # the ids may be the new ones alone
        new = max(1, whole.shape[1] - int(past_key_values.get_seq_length()))
        return given | {"input_ids": input_ids[:, -new:], "past_key_values": past_key_values}


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
        logits = self.model(input_ids, _mask(attention_mask), **_kinds(self.model, token_type_ids))
        loss = None if labels is None else tokens_loss(logits, labels, num_items_in_batch)
        return outputs.MaskedLMOutput(loss=loss, logits=logits)


class ManyheadsForImageClassification(ManyheadsPreTrained):
    """Classes of images. A distilled model's two classifiers both learn the labels."""

    heads = (Classify,)
    accepts_loss_kwargs = False  # the loss is a mean over this batch: the Trainer divides by its accumulation steps

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None, **_: Any) -> Any:
        logits = self.model(pixel_values)
        loss = None if labels is None else classes_loss(logits, labels, self.config)
        return outputs.ImageClassifierOutput(loss=loss, logits=logits.mean(0) if logits.ndim == 3 else logits)


class ManyheadsForSequenceClassification(ManyheadsPreTrained):
    """Classes of texts. A record with a masked-language head gets BERT's pooler and classifier in its place."""

    heads = (Classify,)
    accepts_loss_kwargs = False

    def headed(self, arch: Arch) -> Arch:
        """`arch`, a masked-language head exchanged for a classifier on the first token."""
        if isinstance(arch.head, Masked):
            classifier = Classify(
                self.config.num_labels, "class", arch.head.norm, hidden=arch.stages[-1].width, act="tanh"
            )
            return replace(arch, head=classifier)
        if not isinstance(arch.embed, Token):
            raise UserError(
                "ManyheadsForSequenceClassification reads text, and this record is of an image model; load it "
                "with ManyheadsForImageClassification"
            )
        return super().headed(arch)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **_: Any,
    ) -> Any:
        logits = self.model(input_ids, _mask(attention_mask), **_kinds(self.model, token_type_ids))
        loss = None if labels is None else classes_loss(logits, labels, self.config)
        return outputs.SequenceClassifierOutput(loss=loss, logits=logits)


def class_for(arch: Arch) -> type[ManyheadsPreTrained]:
    """The class that a record's head belongs to."""
    match arch.head:
        case Lm():
            return ManyheadsForCausalLM
        case Masked():
            return ManyheadsForMaskedLM
        case Classify() if isinstance(arch.embed, Token):
            return ManyheadsForSequenceClassification
        case Classify():
            return ManyheadsForImageClassification
        case Pair() | Coordinates():
            raise UserError(f"a record with a {type(arch.head).__name__} head has no counterpart in transformers")


def wrap(model: nn.Module) -> ManyheadsPreTrained:
    """A built (and trained) module as a Hugging Face model that shares its parameters."""
    arch = model.arch
    assert isinstance(arch, Arch)
    with torch.device("meta"):
        made = class_for(arch)(ManyheadsConfig(arch=arch))
    made.model = model
    if made.can_generate():
        made.generation_config = transformers.GenerationConfig(use_cache=True)
    return made


def export(
    model: nn.Module | Arch, folder: Path | str, *, seed: int | None = None, tokenizer: Vocabulary | None = None
) -> Path:
    """Write a built module, or a record with initial weights, as a folder that `from_pretrained` reads; with
    `tokenizer` (`data.text.corpora.tokenizer` gives that of a run's data) AutoTokenizer and evaluation harnesses read
    it, too."""
    made = wrap(build(model, seed=seed) if isinstance(model, Arch) else model)
    try:
        if tokenizer is not None:
            known = save_tokenizer(tokenizer, made.model.arch, folder)
            if made.can_generate():
                made.generation_config.update(**known)
        made.save_pretrained(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}") from None
    return Path(folder)


transformers.AutoConfig.register("manyheads", ManyheadsConfig)
transformers.AutoModel.register(ManyheadsConfig, ManyheadsModel)
transformers.AutoModelForCausalLM.register(ManyheadsConfig, ManyheadsForCausalLM)
transformers.AutoModelForMaskedLM.register(ManyheadsConfig, ManyheadsForMaskedLM)
transformers.AutoModelForImageClassification.register(ManyheadsConfig, ManyheadsForImageClassification)
transformers.AutoModelForSequenceClassification.register(ManyheadsConfig, ManyheadsForSequenceClassification)
