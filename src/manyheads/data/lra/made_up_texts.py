"""Documents of made-up words, for the tasks on texts where no real texts are at hand.

A word is a set of letters. Every topic has an alphabet (its own order of the letters), spells words in that order, and
has a few favourite words. A `share` of the words in a document belongs to its topic and is spelt the topic's way; of
these, the part `taste` are favourites. All other words are drawn at random, each spelt the way of a random topic.

Without taste, all topics use all letters equally often. They differ in which letter precedes which, thinly spread over
the document, so a model has to read and gather order. With taste, the letters alone carry information, as in real
texts, which gives a model a start. A document is a function of (key, number, topic)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from jaxtyping import Int, UInt8, UInt64

from manyheads.spec.generated import Topics

from ..randomness import Indices, bits, key
from .sequences import Lengths, Sequences, joined, packed

VERSION = 1  # of the documents that a key gives; sets of another version are not read
LETTERS = 26


SHORTEST_WORD, LONGEST_WORD = 3, 7
WORDS = 512  # in the vocabulary of all documents
FAVOURITES = 24  # of a topic
CHUNK = 128  # documents made at once


@lru_cache(maxsize=4)
def _spellings(topics: int, seed: int) -> UInt8[np.ndarray, "topics words letters"]:
    """Every word in every topic's spelling, followed by a space and padded with 0."""
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
    key_: int, numbers: Indices, topics: Indices, setting: Topics
) -> tuple[UInt8[np.ndarray, " bytes"], Lengths]:
    """The documents with these numbers about these topics, one after another, and their lengths."""
    count = setting.longest // (SHORTEST_WORD + 1) + 1  # words: enough even if all are short
    span = setting.longest - setting.shortest + 1
    lengths = setting.shortest + (bits(key(key_, "length"), numbers, 1)[:, 0] % np.uint64(span)).astype(np.int64)
    word = bits(key(key_, "words"), numbers, count)
    own = _field(word, 48) < round(setting.share * 2**16)
    liked = own & (_field(word, 32) < round(setting.taste * 2**16))
    topic = np.where(own, topics[:, None], _field(word, 16) % setting.count)
    favourite = bits(key(setting.seed, "favourites"), np.arange(setting.count), FAVOURITES) % np.uint64(WORDS)
    chosen = np.where(liked, favourite.astype(np.int64)[topic, _field(word, 0) % FAVOURITES], _field(word, 0) % WORDS)
    letters = _spellings(setting.count, setting.seed)[topic, chosen]
    flat = letters.reshape(len(numbers), -1)
    there = flat != 0
    inside = there & (there.cumsum(axis=1, dtype=np.int32) <= lengths[:, None])
    return flat[inside], lengths


def _field(word: UInt64[np.ndarray, "documents words"], shift: int) -> Int[np.ndarray, "documents words"]:
    """16 bits of each word, as a number."""
    return ((word >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)


def topic_documents(key_: int, numbers: Indices, setting: Topics) -> Sequences:
    """Documents with their topic as label. In every `count` consecutive numbers, each topic occurs once."""
    turn = key(key_, "label")
    shift = bits(turn, numbers // setting.count, 1)[:, 0] % np.uint64(setting.count)
    topics = (numbers + shift.astype(np.int64)) % setting.count
    return _samples(key_, numbers, topics[:, None], topics, setting)


def topic_pairs(key_: int, numbers: Indices, setting: Topics) -> Sequences:
    """Pairs of documents: about the same topic for label 1, about different topics for label 0. Pairs 2n and 2n+1 have
    one label each."""
    labels = (bits(key(key_, "label"), numbers // 2, 1)[:, 0] & np.uint64(1)).astype(np.int64) ^ (numbers & 1)
    drawn = bits(key(key_, "topics"), numbers, 2)
    first = (drawn[:, 0] % np.uint64(setting.count)).astype(np.int64)
    step = 1 + (drawn[:, 1] % np.uint64(setting.count - 1)).astype(np.int64)
    second = np.where(labels == 1, first, (first + step) % setting.count)
    return _samples(key_, numbers, np.stack((first, second), 1), labels, setting)


def _samples(
    key_: int, numbers: Indices, topics: Int[np.ndarray, "samples documents"], labels: Indices, setting: Topics
) -> Sequences:
    each = topics.shape[1]
    own = (numbers[:, None] * each + np.arange(each)).ravel()
    parts = []
    for start in range(0, len(numbers), CHUNK):
        some = slice(start * each, (start + CHUNK) * each)
        store, lengths = documents(key_, own[some], topics.ravel()[some], setting)
        parts.append(joined(store, lengths, labels[start : start + CHUNK], each))
    return packed(parts)
