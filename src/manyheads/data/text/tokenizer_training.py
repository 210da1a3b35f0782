"""Train a BPE or WordPiece tokenizer on your own texts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Literal

from manyheads.spec.errors import UserError, optional

from .vocabulary import SPECIAL, Vocabulary, byte_pairs, parse, word_pieces

TokenizerKind = Literal["bpe", "wordpiece"]
UNKNOWN = "<unk>"


def train_tokenizer(kind: TokenizerKind, texts: Iterable[str], size: int, name: str = "") -> Vocabulary:
    """A tokenizer of exactly `size` tokens, trained on `texts`.

    `bpe` is GPT-2's kind: it works on bytes, without normalisation, and any text survives encoding and decoding.
    `wordpiece` is Crammed BERT's: lower case, no accents, ASCII only, split at white space and punctuation. The special
    tokens are <pad>, <|endoftext|>, <cls>, <sep> and <mask>, ids 0 to 4, and <unk> in a WordPiece."""
    if kind not in ("bpe", "wordpiece"):
        raise UserError(f"a tokenizer of kind {kind!r} cannot be trained; write bpe or wordpiece")
    library: Any = optional("tokenizers", "tokenizers", "training a tokenizer")
    special = [*SPECIAL] if kind == "bpe" else [*SPECIAL, UNKNOWN]
    least = len(special) + (256 if kind == "bpe" else 1)
    if size <= least:
        raise UserError(f"a {kind} of {size} tokens is too small; write more than {least}")
    if kind == "bpe":
        coder = library.Tokenizer(library.models.BPE())
        coder.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = library.trainers.BpeTrainer(
            vocab_size=size,
            special_tokens=special,
            initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
    else:
        coder = library.Tokenizer(library.models.WordPiece(unk_token=UNKNOWN))
        coder.normalizer = crammed_normalizer(library)
        coder.pre_tokenizer = library.pre_tokenizers.BertPreTokenizer()
        trainer = library.trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    coder.train_from_iterator(texts, trainer)
    data = json.loads(coder.to_str())
    vocab = dict(sorted(data["model"]["vocab"].items(), key=lambda item: item[1]))
    if len(vocab) != size:
        raise UserError(
            f"these texts give a {kind} of {len(vocab)} tokens, not {size}; write size={len(vocab)}, or give more text"
        )
    ids = {word: vocab[word] for word in special}
    if kind == "bpe":
        merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in data["model"]["merges"]]
        return parse(byte_pairs(vocab, merges, ids), name or f"bpe-{size}")
    # The trainer numbers the pieces in the order of a hash table, which differs between runs. Encoding does not depend
    # on the numbers.
    vocab = {word: i for i, word in enumerate([*special, *sorted(vocab.keys() - set(special))])}
    text = word_pieces(vocab, ids, UNKNOWN, data["normalizer"], data["pre_tokenizer"])
    return parse(text, name or f"wordpiece-{size}")


def crammed_normalizer(library: Any) -> Any:
    """Crammed BERT's normalizer: `` and '' become quotation marks, accents and all beyond ASCII are removed, and runs
    of spaces become one."""
    make = library.normalizers
    return make.Sequence(
        [
            make.Replace("``", '"'),
            make.Replace("''", '"'),
            make.NFD(),
            make.Lowercase(),
            make.StripAccents(),
            make.Replace(library.Regex(" {2,}"), " "),
            make.Replace(library.Regex(r"[^\x00-\x7F]+"), ""),
        ]
    )
