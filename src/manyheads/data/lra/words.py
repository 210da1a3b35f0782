"""Documents made of made-up words, for the tasks on texts where no text is at hand.

A word is a set of letters. Every topic has an alphabet, an order of the letters of its own, and spells a word in that
order; and it has a few favourite words. In a document a `share` of the words is the topic's own, spelt its way, and of
these the part `taste` are favourites; the others are any words, each spelt the way of a topic drawn at random.

Without taste all topics use all letters equally often: what tells them apart is which letter stands before which,
thinly spread over the document, and that has to be read and gathered. With taste the letters alone say something, as
they do in real texts, which gives a model a beginning. A document is a function of (key, number, topic)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Int, UInt8, UInt64

from manyheads.spec.generated import Topics

from ..draws import bits, key
from .sequences import Indices, Lengths, Sequences, joined, packed

VERSION = 1  # of what a key gives; kept sets of another version are not read
LETTERS = 26
SHORTEST_WORD, LONGEST_WORD = 3, 7
WORDS = 512  # sets of letters that all documents are made of
FAVOURITES = 24  # of a topic
CHUNK = 128  # documents made at once


@lru_cache(maxsize=4)
def _spellings(topics: int, seed: int) -> UInt8[np.ndarray, "topics words letters"]:
    """Every word in every topic's spelling, a space behind it, filled up with 0."""
    size = SHORTEST_WORD + bits(key(seed, "size"), np.arange(WORDS), 1)[:, 0] % np.uint64(
        LONGEST_WORD - SHORTEST_WORD + 1
    )
    chosen = bits(key(seed, "letters"), np.arange(WORDS), LETTERS).argsort(axis=1)[:, :LONGEST_WORD]
    rank = bits(key(seed, "alphabet"), np.arange(topics), LETTERS).argsort(axis=1).argsort(axis=1)
    there = np.arange(LONGEST_WORD) < size[:, None]
    order = np.where(there, rank[:, chosen], LETTERS).argsort(axis=-1, kind="stable")
    letters = np.where(there, chosen + ord("a"), 0)
    out = np.zeros((topics, WORDS, LONGEST_WORD + 1), np.uint8)
    out[..., :-1] = np.take_along_axis(np.broadcast_to(letters, order.shape), order, axis=-1)
    np.put_along_axis(out, np.broadcast_to(size.astype(np.int64)[:, None], (topics, WORDS, 1)), ord(" "), axis=-1)
    return out


def documents(
    key_: int, numbers: Indices, topics: Indices, made: Topics
) -> tuple[UInt8[np.ndarray, " bytes"], Lengths]:
    """The documents of these numbers about these topics, one behind the other, and their lengths."""
    count = made.longest // (SHORTEST_WORD + 1) + 1  # words: enough even if all were short
    span = made.longest - made.shortest + 1
    lengths = made.shortest + (bits(key(key_, "length"), numbers, 1)[:, 0] % np.uint64(span)).astype(np.int64)
    word = bits(key(key_, "words"), numbers, count)
    own = _field(word, 48) < round(made.share * 2**16)
    liked = own & (_field(word, 32) < round(made.taste * 2**16))
    topic = np.where(own, topics[:, None], _field(word, 16) % made.count)
    favourite = bits(key(made.seed, "favourites"), np.arange(made.count), FAVOURITES) % np.uint64(WORDS)
    chosen = np.where(liked, favourite.astype(np.int64)[topic, _field(word, 0) % FAVOURITES], _field(word, 0) % WORDS)
    letters = _spellings(made.count, made.seed)[topic, chosen]
    flat = letters.reshape(len(numbers), -1)
    there = flat != 0
    kept = there & (there.cumsum(axis=1, dtype=np.int32) <= lengths[:, None])
    return flat[kept], lengths


def _field(word: UInt64[np.ndarray, "documents words"], shift: int) -> Int[np.ndarray, "documents words"]:
    """16 bits of each word, as a number."""
    return ((word >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)


def classify(key_: int, numbers: Indices, made: Topics) -> Sequences:
    """Documents with their topic as label; of numbers 0 to topics - 1, of the next as many and so on, each has one."""
    turn = key(key_, "label")
    shift = bits(turn, numbers // made.count, 1)[:, 0] % np.uint64(made.count)
    topics = (numbers + shift.astype(np.int64)) % made.count
    return _made(key_, numbers, topics[:, None], topics, made)


def pairs(key_: int, numbers: Indices, made: Topics) -> Sequences:
    """Two documents each: about the same topic for label 1, about different ones for label 0; pairs 2n and 2n+1 have
    one label each."""
    labels = (bits(key(key_, "label"), numbers // 2, 1)[:, 0] & np.uint64(1)).astype(np.int64) ^ (numbers & 1)
    drawn = bits(key(key_, "topics"), numbers, 2)
    first = (drawn[:, 0] % np.uint64(made.count)).astype(np.int64)
    step = 1 + (drawn[:, 1] % np.uint64(made.count - 1)).astype(np.int64)
    second = np.where(labels == 1, first, (first + step) % made.count)
    return _made(key_, numbers, np.stack((first, second), 1), labels, made)


def _made(
    key_: int, numbers: Indices, topics: Int[np.ndarray, "samples documents"], labels: Indices, made: Topics
) -> Sequences:
    each = topics.shape[1]
    own = (numbers[:, None] * each + np.arange(each)).ravel()
    parts = []
    for start in range(0, len(numbers), CHUNK):
        some = slice(start * each, (start + CHUNK) * each)
        store, lengths = documents(key_, own[some], topics.ravel()[some], made)
        parts.append(joined(store, lengths, labels[start : start + CHUNK], each))
    return packed(parts)
