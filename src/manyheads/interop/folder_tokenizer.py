"""The tokenizer in a folder of transformers: how a prompt becomes ids, which ids end a text, and what a chat looks like."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyheads.spec.errors import UserError, first_line, optional
from manyheads.spec.serialise import read_json

FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "vocab.txt", "tokenizer.model")


def has_tokenizer(folder: Path) -> bool:
    """Whether a folder holds a tokenizer."""
    return any((folder / name).is_file() for name in FILES)


def read_tokenizer(folder: Path, gguf: str | None = None) -> Any:
    """The tokenizer as transformers reads it; that of a GGUF file is in the file."""
    from .foreign_source import quietly

    transformers = optional("transformers", "manyheads[hf]", f"the tokenizer of {folder}")
    settings = {"gguf_file": gguf} if gguf else {}
    load = transformers.AutoTokenizer.from_pretrained
    return quietly(lambda: load(folder, trust_remote_code=False, **settings), f"the tokenizer of {str(folder)!r}")


@dataclass(frozen=True)
class FolderTokenizer:
    """A tokenizer of transformers. `ends` are the ids after which a text is finished."""

    tokenizer: Any
    ends: tuple[int, ...]

    def encode(self, prompt: str) -> list[int]:
        """The ids of a prompt, with the token that begins a text where the tokenizer adds one; an empty prompt is that
        token, or else the one that ends a text."""
        first = [self.tokenizer.bos_token_id, *self.ends]
        ids = list(self.tokenizer(prompt)["input_ids"]) or [each for each in first if each is not None][:1]
        if not ids:
            raise UserError("the prompt is empty, and the tokenizer has no token that begins or ends a text; write one")
        return ids

    def encode_chat(self, message: str) -> list[int]:
        """The ids of a user's message, as the folder's chat template writes it before an answer."""
        if not self.tokenizer.chat_template:
            raise UserError("the folder's tokenizer has no chat template; leave --chat out and write the prompt itself")
        try:
            messages = [{"role": "user", "content": message}]
            text = self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # a template is a program of its own
            raise UserError(f"the folder's chat template cannot be filled: {first_line(error)}") from None
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: list[int]) -> str:
        """The text of ids, without special tokens."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))


def folder_tokenizer(folder: Path, gguf: str | None = None) -> FolderTokenizer:
    """The tokenizer of a folder, and the end tokens of its generation_config.json, or else of its config.json, or else
    of the tokenizer itself."""
    tokenizer = read_tokenizer(folder, gguf)
    for name in ("generation_config.json", "config.json"):
        if (folder / name).is_file() and (ends := _ends(read_json(folder / name))):
            return FolderTokenizer(tokenizer, ends)
    own = tokenizer.eos_token_id
    return FolderTokenizer(tokenizer, () if own is None else (own,))


def _ends(config: Any) -> tuple[int, ...]:
    stated = config.get("eos_token_id") if isinstance(config, dict) else None
    listed = stated if isinstance(stated, list) else [stated]
    return tuple(each for each in listed if isinstance(each, int) and not isinstance(each, bool))
