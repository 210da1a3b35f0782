"""A vocabulary as a Hugging Face tokenizer, for the folder of an exported language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from manyheads.data.text.vocabulary import Vocabulary
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Token

from .extras import needed

# what transformers calls the special tokens
NAMES = {"pad": "pad_token", "end": "eos_token", "cls": "cls_token", "sep": "sep_token", "mask": "mask_token"}


def save_tokenizer(words: Vocabulary, arch: Arch, folder: Path | str) -> dict[str, int]:
    """Write `words` into `folder` so that AutoTokenizer reads it; gives the ids that `generate` wants to know."""
    transformers: Any = needed("transformers", "hf")
    tokenizers: Any = needed("tokenizers", "hf")
    if not words.text:
        raise UserError(
            f"tokenizer {words.name} has no tokenizer.json, which a Hugging Face folder needs; train the model "
            "with a BPE or a WordPiece, or leave the tokenizer out"
        )
    if not isinstance(arch.embed, Token) or words.size > arch.embed.vocab:
        room = f"a vocabulary of {arch.embed.vocab}" if isinstance(arch.embed, Token) else "no vocabulary"
        raise UserError(
            f"tokenizer {words.name} has {words.size} ids and the model {room}; give the one that it was trained with"
        )
    coder = tokenizers.Tokenizer.from_str(words.text)
    special = {NAMES[role]: coder.id_to_token(number) for role, number in words.roles.items()}
    longest = arch.embed.positions or arch.stages[0].tokens
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=coder, model_max_length=longest, **special)
    made.save_pretrained(folder)
    end = words.roles.get("end")
    if end is None:
        return {}
    return {"eos_token_id": end, "bos_token_id": end, "pad_token_id": words.roles.get("pad", end)}
