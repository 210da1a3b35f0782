"""manyheads models for transformers: after `import manyheads.interop.hf` the Auto classes load exported folders.

`export` writes a folder from any built module: `config.json` (model_type `manyheads`, the record under `arch`) and
`model.safetensors`. AutoModelForCausalLM, -MaskedLM, -ImageClassification and -SequenceClassification load it, train it
with the Trainer (given labels, a model returns its loss) and save it again. `generate` works with transformers' own
caches.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from manyheads.data.text.vocabulary import Vocabulary
from manyheads.models.build import build
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError, optional
from manyheads.spec.parts import Classify, Coordinates, Features, Lm, Masked, Pair, Token

from .hf_base import ManyheadsPreTrained
from .hf_config import ManyheadsConfig, transformers
from .hf_generate import ManyheadsForCausalLM
from .hf_models import (
    ManyheadsForImageClassification,
    ManyheadsForMaskedLM,
    ManyheadsForSequenceClassification,
    ManyheadsModel,
)
from .hf_stock import stock_model

__all__ = [
    "ManyheadsConfig",
    "ManyheadsForCausalLM",
    "ManyheadsForImageClassification",
    "ManyheadsForMaskedLM",
    "ManyheadsForSequenceClassification",
    "ManyheadsModel",
    "class_for",
    "export",
    "save_tokenizer",
    "stock_model",
    "wrap",
]
# role of a special token in our vocabularies -> its name in transformers
SPECIAL = {"pad": "pad_token", "end": "eos_token", "cls": "cls_token", "sep": "sep_token", "mask": "mask_token"}


def class_for(arch: Arch) -> type[ManyheadsPreTrained]:
    """The model class for a record's kind of head."""
    match arch.head:
        case Lm():
            return ManyheadsForCausalLM
        case Masked():
            return ManyheadsForMaskedLM
        case Classify() if isinstance(arch.embed, Token):
            return ManyheadsForSequenceClassification
        case Classify():
            return ManyheadsForImageClassification
        case Features():
            return ManyheadsModel
        case Pair() | Coordinates():
            raise UserError(f"a record with a {type(arch.head).__name__} head has no counterpart in transformers")


def wrap(model: nn.Module) -> ManyheadsPreTrained:
    """A built (and trained) module as a Hugging Face model that shares its parameters."""
    arch = model.arch
    assert isinstance(arch, Arch)
    with torch.device("meta"):
        wrapped = class_for(arch)(ManyheadsConfig(arch=arch))
    wrapped.model = model
    if wrapped.can_generate():
        wrapped.generation_config = transformers.GenerationConfig(use_cache=True)
    return wrapped


def export(
    model: nn.Module | Arch,
    folder: Path | str,
    *,
    seed: int | None = None,
    tokenizer: Vocabulary | None = None,
    stock: bool = False,
) -> Path:
    """Write a built module, or a record with initial weights, as a folder that `from_pretrained` reads.

    With `stock`, it is a folder of transformers' own GPT-2, Llama, Qwen, BERT or ViT, which needs no manyheads; a record
    that none of these can express is refused. Without, it loads after `import manyheads.interop.hf`, or with
    `trust_remote_code=True`, for which the folder carries the lines that do so.

    With `tokenizer`, AutoTokenizer and evaluation harnesses read the folder as well;
    `data.text.corpora.tokenizer` returns the tokenizer of a run's data."""
    module = build(model, seed=seed) if isinstance(model, Arch) else model
    wrapped: Any = stock_model(module) if stock else wrap(module)
    try:
        if tokenizer is not None:
            assert isinstance(module.arch, Arch)
            ids = save_tokenizer(tokenizer, module.arch, folder)
            if wrapped.can_generate():
                wrapped.generation_config.update(**ids)
        wrapped.save_pretrained(folder)
        for weights in Path(folder).glob("*.safetensors"):  # safetensors makes them readable by their owner alone
            weights.chmod((Path(folder) / "config.json").stat().st_mode)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror or error}") from None
    return Path(folder)


def save_tokenizer(words: Vocabulary, arch: Arch, folder: Path | str) -> dict[str, int]:
    """Write `words` into `folder` so that AutoTokenizer reads it. Returns the special ids that `generate` needs."""
    tokenizers: Any = optional("tokenizers", "manyheads[hf]")
    if not words.text:
        raise UserError(
            f"tokenizer {words.name} has no tokenizer.json, which a Hugging Face folder needs; train the model "
            "with a BPE or a WordPiece vocabulary, or leave the tokenizer out"
        )
    if not isinstance(arch.embed, Token) or words.size > arch.embed.vocab:
        room = f"a vocabulary of {arch.embed.vocab}" if isinstance(arch.embed, Token) else "no vocabulary"
        raise UserError(
            f"tokenizer {words.name} has {words.size} ids and the model {room}; write the tokenizer that the model "
            "was trained with"
        )
    coder = tokenizers.Tokenizer.from_str(words.text)
    special = {SPECIAL[role]: coder.id_to_token(number) for role, number in words.roles.items()}
    longest = arch.embed.places or arch.stages[0].tokens
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=coder, model_max_length=longest, **special)
    tokenizer.save_pretrained(folder)
    end = words.roles.get("end")
    if end is None:
        return {}
    return {"eos_token_id": end, "bos_token_id": end, "pad_token_id": words.roles.get("pad", end)}


transformers.AutoConfig.register("manyheads", ManyheadsConfig)
transformers.AutoModel.register(ManyheadsConfig, ManyheadsModel)
transformers.AutoModelForCausalLM.register(ManyheadsConfig, ManyheadsForCausalLM)
transformers.AutoModelForMaskedLM.register(ManyheadsConfig, ManyheadsForMaskedLM)
transformers.AutoModelForImageClassification.register(ManyheadsConfig, ManyheadsForImageClassification)
transformers.AutoModelForSequenceClassification.register(ManyheadsConfig, ManyheadsForSequenceClassification)
