"""Tokenizers by name: `bytes`, the embedded `stories`, GPT-2's and BERT's from their files, any tokenizer.json.

A `Vocabulary` is the text of a tokenizer.json; its digest is the sha256 of that text. Its size and special tokens are
read without the package `tokenizers`, which is needed only to encode and decode."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from manyheads.spec import json_text
from manyheads.spec.errors import UserError, nearest, optional

from ..local_data import first_found

BYTES, STORIES, GPT2, BERT = "bytes", "stories", "gpt2", "bert_uncased"
NAMES = (BYTES, STORIES, GPT2, BERT)
EMBEDDED = Path(__file__).parent / "stories" / "tokenizer.json"
SPECIAL = ("<pad>", "<|endoftext|>", "<cls>", "<sep>", "<mask>")  # of tokenizers trained here, ids 0 to 4
# The purpose of a special token -> the names that tokenizers give it; the first name in the vocabulary counts.
ROLES = {
    "pad": ("<pad>", "[PAD]"),
    "end": ("<|endoftext|>", "</s>", "<sep>", "[SEP]"),  # comes after a document
    "cls": ("<cls>", "[CLS]", "<s>"),
    "sep": ("<sep>", "[SEP]", "</s>"),
    "mask": ("<mask>", "[MASK]"),
}
FORMS = f"{', '.join(NAMES)}, a tokenizer.json, a vocab.txt, or a folder that holds one of them"


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer: `text` is its tokenizer.json, empty for bytes; `roles` are the ids of its special tokens (see
    ROLES)."""

    name: str
    text: str
    size: int
    roles: dict[str, int]

    @property
    def digest(self) -> str:
        """The sha256 of the tokenizer."""
        return hashlib.sha256((self.text or BYTES).encode()).hexdigest()

    def role(self, name: str) -> int:
        """The id of a special token by its purpose, a key of ROLES."""
        if name not in self.roles:
            names = " or ".join(ROLES[name])
            raise UserError(
                f"tokenizer {self.name} has no token {names}, which is needed here; it has "
                f"{', '.join(self.roles) or 'no special token'}: add it and tokenize again"
            )
        return self.roles[name]

    @cached_property
    def _coder(self) -> Any:
        library = optional("tokenizers", "tokenizers", f"tokenizer {self.name}")
        try:
            coder = library.Tokenizer.from_str(self.text)
        except Exception as error:  # the library raises no narrower class
            raise UserError(f"tokenizer {self.name} cannot be read: {error}") from None
        coder.no_truncation()
        coder.no_padding()
        coder.encode_special_tokens = True  # "<mask>" in a text is six characters, not a special token
        return coder

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, without special tokens."""
        if not self.text:
            return [(np.frombuffer(text.encode(), np.uint8).astype(np.int64) + len(SPECIAL)).tolist() for text in texts]
        return [encoding.ids for encoding in self._coder.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, without special tokens."""
        numbers = [int(i) for i in ids]
        if high := [i for i in numbers if not 0 <= i < self.size]:
            raise UserError(f"id {high[0]} is none of tokenizer {self.name}, whose ids are 0 to {self.size - 1}")
        if self.text:
            return str(self._coder.decode(numbers, skip_special_tokens=True))
        return bytes(i - len(SPECIAL) for i in numbers if i >= len(SPECIAL)).decode(errors="replace")


def load(name: str, root: Path) -> Vocabulary:
    """The tokenizer `name`. The files of gpt2 and bert_uncased are searched for below `root`/tokenizers."""
    if name == BYTES:
        return Vocabulary(BYTES, "", len(SPECIAL) + 256, dict(zip(ROLES, range(5), strict=True)))
    if name == STORIES:
        return read(EMBEDDED, STORIES)
    if name in (GPT2, BERT):
        places = {GPT2: ("tokenizers/gpt2", "tokenizers"), BERT: ("tokenizers/bert_uncased", "tokenizers")}[name]
        files = {
            GPT2: "encoder.json and vocab.bpe (or vocab.json and merges.txt) of GPT-2",
            BERT: "bert-base-uncased-vocab.txt",
        }[name]
        return _files(first_found(root, places, f"tokenizer {name}", f"its publisher ({files})"), name)
    path = Path(os.path.expanduser(name))
    short = (
        path.parent.name if path.name == "tokenizer.json" else path.stem
    )  # manifests do not name folders of a machine
    if path.is_dir():
        return _files(path, path.name)
    if path.name.endswith("vocab.txt") and path.is_file():
        return _word_pieces(path, short)
    if path.is_file():
        return read(path, short)
    raise UserError(f"tokenizer {name!r} is no file and no folder{nearest(name, NAMES)}; write {FORMS}")


def _files(folder: Path, name: str) -> Vocabulary:
    """The tokenizer whose files are in `folder`."""
    if (folder / "tokenizer.json").is_file() and name != BERT:
        return read(folder / "tokenizer.json", name)
    for words, merges in (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")):
        if (folder / words).is_file() and (folder / merges).is_file() and name != BERT:
            return _byte_pairs(folder / words, folder / merges, name)
    for words in ("vocab.txt", "bert-base-uncased-vocab.txt"):
        if (folder / words).is_file() and name != GPT2:
            return _word_pieces(folder / words, name)
    raise UserError(
        f"{folder} holds no tokenizer; put tokenizer.json there, or encoder.json and vocab.bpe, or vocab.txt"
    )


@lru_cache(maxsize=4)
def read(path: Path, name: str) -> Vocabulary:
    """Read a tokenizer.json."""
    try:
        return parse(path.read_text(encoding="utf-8"), name)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from None


def parse(text: str, name: str) -> Vocabulary:
    """The tokenizer with this tokenizer.json."""
    try:
        data = json_text.parse(text, finite=False)
        words = dict(data["model"]["vocab"]) | {str(t["content"]): t["id"] for t in data.get("added_tokens") or ()}
        highest = max(int(i) for i in words.values())
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise UserError(f"{name} is no tokenizer.json: it has no model with a vocabulary; write {FORMS}") from None
    roles = {role: next((words[word] for word in names if word in words), None) for role, names in ROLES.items()}
    return Vocabulary(name, text, highest + 1, {role: i for role, i in roles.items() if i is not None})


def written(model: dict[str, Any], special: dict[str, int], **parts: Any) -> str:
    """The text of a tokenizer.json. It depends only on the vocabulary, not on the version of the package."""
    added = [
        {
            "id": i,
            "content": word,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for word, i in special.items()
    ]
    usual = {"normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None}
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added} | usual | parts
    return json.dumps(whole | {"model": model}, ensure_ascii=False, separators=(",", ":"))


BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def byte_pairs(vocab: dict[str, int], merges: Sequence[str], special: dict[str, int]) -> str:
    """The tokenizer.json of a byte-level BPE, as GPT-2 has it."""
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": vocab,
        "merges": list(merges),
    }
    return written(model, special, pre_tokenizer=BYTE_LEVEL, decoder=BYTE_LEVEL)


@lru_cache(maxsize=2)
def _byte_pairs(words: Path, merges: Path, name: str) -> Vocabulary:
    try:
        vocab = dict(json_text.parse(words.read_bytes(), finite=False))
        listed = merges.read_text(encoding="utf-8").splitlines()
        lines = [line for line in listed if line and not line.startswith("#version")]
    except (ValueError, TypeError) as error:
        raise UserError(f"{words} and {merges} are not the files of a BPE: {error}") from None
    special = {word: vocab[word] for word in ("<|endoftext|>",) if word in vocab}
    return parse(byte_pairs(vocab, lines, special), name)


@lru_cache(maxsize=2)
def _word_pieces(path: Path, name: str) -> Vocabulary:
    """BERT's uncased tokenizer, from a file with one word piece on each line."""
    words = path.read_text(encoding="utf-8").splitlines()
    vocab = {word: i for i, word in enumerate(words)}
    if "[UNK]" not in vocab or len(vocab) != len(words):
        raise UserError(
            f"{path} is no list of word pieces: it has no [UNK], or a line occurs twice; write one piece on each line"
        )
    marks = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    special: dict[str, int] = {word: vocab[word] for word in marks if word in vocab}
    return parse(word_pieces(vocab, special, "[UNK]", BERT_NORMALIZER, {"type": "BertPreTokenizer"}), name)


BERT_NORMALIZER = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}


def word_pieces(vocab: dict[str, int], special: dict[str, int], unknown: str, normalizer: Any, splitter: Any) -> str:
    """The tokenizer.json of a WordPiece tokenizer."""
    model = {
        "type": "WordPiece",
        "unk_token": unknown,
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": vocab,
    }
    decoder = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    return written(model, special, normalizer=normalizer, pre_tokenizer=splitter, decoder=decoder)
