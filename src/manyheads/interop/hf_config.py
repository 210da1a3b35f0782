"""A record as a transformers configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch, attentions, editable
from manyheads.spec.errors import UserError, optional
from manyheads.spec.parts import Classify, Points, Token

transformers: Any = optional("transformers", "manyheads[hf]")

LOADER = "modeling_manyheads"  # the name that transformers' users know such a file by
CLASSES = {
    "AutoConfig": "ManyheadsConfig",
    "AutoModel": "ManyheadsModel",
    "AutoModelForCausalLM": "ManyheadsForCausalLM",
    "AutoModelForMaskedLM": "ManyheadsForMaskedLM",
    "AutoModelForImageClassification": "ManyheadsForImageClassification",
    "AutoModelForSequenceClassification": "ManyheadsForSequenceClassification",
}
LINES = f'''"""This folder holds a manyheads model. After these two lines transformers' Auto classes load it:

    import manyheads.interop.hf  # pip install "manyheads[hf]"
    model = transformers.AutoModel.from_pretrained(FOLDER)  # or AutoModelForCausalLM, and so on
"""

from manyheads.interop.hf import {", ".join(sorted(CLASSES.values()))}
'''


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

    def save_pretrained(self, save_directory: str | os.PathLike[str], push_to_hub: bool = False, **kwargs: Any) -> None:
        """Write config.json and, beside it, the lines that load the folder: with `trust_remote_code=True`, transformers
        runs them where manyheads was not imported."""
        self.auto_map = {auto: f"{LOADER}.{name}" for auto, name in CLASSES.items()}
        Path(save_directory).mkdir(parents=True, exist_ok=True)
        (Path(save_directory) / f"{LOADER}.py").write_text(LINES)
        super().save_pretrained(save_directory, push_to_hub=push_to_hub, **kwargs)

    @classmethod
    def register_for_auto_class(cls, auto_class: str = "AutoConfig") -> None:
        """Nothing: transformers would copy our files into the folder, and those that are installed serve."""

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
        "num_hidden_layers": sum(arch.stages[i].depth * len(arch.stages[i].unit) for i in editable(arch)),
        "num_attention_heads": op.heads,
        "head_dim": op.head_dim,
        "num_key_value_heads": op.kv_heads or op.heads,
    }
    if isinstance(arch.embed, Token):
        sizes |= {"vocab_size": arch.embed.vocab, "max_position_embeddings": arch.embed.places or arch.stages[0].tokens}
    elif not isinstance(arch.embed, Points):
        sizes |= {"image_size": arch.embed.image, "num_channels": arch.embed.channels}
    if isinstance(arch.head, Classify) and not {"num_labels", "id2label"} & kwargs.keys():
        sizes["num_labels"] = arch.head.classes
    return sizes
