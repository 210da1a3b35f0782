"""ListOps, generated as LRA does: nested MIN, MAX, MED and SM (sum modulo 10) of digits; the label is the result.

A sample is a function of (key, number). Trees are grown for it until one has a length within the limits. The random
word of a node is mixed from its parent's word and its place among its siblings, so that a sample does not depend on
other samples or on the process. All trees of a chunk grow together, level by level: 3 trees are grown for each that is
accepted, about 0.2 ms a sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, UInt8, UInt64

from manyheads.spec.errors import UserError
from manyheads.spec.generated import LISTOPS_CLASSES, LISTOPS_TOKENS, Grammar

from ..randomness import GAMMA, Indices, bits, finalised
from .sequences import Sequences, joined, packed

VERSION = 1  # of the samples that a key gives; sets of another version are not read


DIGIT, OPERATOR, CLOSE = 1, 11, 15
TRIALS = 5_000  # trees grown for one sample at most; LRA's limits need 3
Words = UInt64[np.ndarray, " nodes"]
Nodes = Int[np.ndarray, " nodes"]


@dataclass(frozen=True)
class Level:
    """The nodes of all trees at one depth. `parent` is the number of a node's parent among the operators of the level
    above; the children of an operator are adjacent and in order. `arity` is 0 for a digit."""

    tree: Nodes
    parent: Nodes
    word: Words
    arity: Nodes

    @property
    def operator(self) -> Int[np.ndarray, " operators"]:
        """The indices of the operators."""
        return np.flatnonzero(self.arity)


def sample(key: int, numbers: Indices, grammar: Grammar) -> Sequences:
    """The samples with these numbers, in their order."""
    left = np.arange(len(numbers))
    parts: list[tuple[Indices, Sequences]] = []
    trial, width = (
        0,
        max(1, min(8, 2048 // len(numbers))),
    )  # trees of a sample grown at once; does not change the result
    while len(left):
        tried = np.repeat(numbers[left] * np.int64(1 << 20), width) + np.tile(
            np.arange(trial, trial + width), len(left)
        )
        levels, tokens = _grow(bits(key, tried, 1)[:, 0], grammar)
        good = ((tokens >= grammar.shortest) & (tokens <= grammar.longest)).reshape(-1, width)
        first = good.argmax(1) + np.arange(len(left)) * width
        done = good.any(1)
        if done.any():
            parts.append((left[done], _sequences(_only(levels, first[done], len(tokens)), tokens[first[done]])))
        left, trial = left[~done], trial + width
        if trial > TRIALS and len(left):
            raise UserError(
                f"{grammar} grew no tree of {grammar.shortest} to {grammar.longest} tokens in {TRIALS:,} trials; "
                "write wider limits, or more arguments"
            )
    return packed([part for _, part in parts]).at(np.argsort(np.concatenate([place for place, _ in parts])))


def _grow(roots: UInt64[np.ndarray, " trees"], grammar: Grammar) -> tuple[list[Level], Int[np.ndarray, " trees"]]:
    """Trees with an operator as root (a single digit is never long enough), and their numbers of tokens. A tree that is
    about to become too long stops growing and counts as too long."""
    tokens = np.zeros(len(roots), np.int64)
    tree, parent, word = np.arange(len(roots)), np.arange(len(roots)), roots
    levels = []
    for depth in range(1, grammar.depth + 1):
        arity = np.zeros(len(word), np.int64)
        if depth < grammar.depth:
            operator = np.flatnonzero(word >> np.uint64(62) == 0) if depth > 1 else np.arange(len(word))
            arity[operator] = 2 + _field(word[operator], 20, grammar.arity - 1)
            tokens += np.bincount(tree[operator], minlength=len(tokens))
        tokens += np.bincount(tree, minlength=len(tokens))
        # each child has one token or more
        least = tokens + np.bincount(tree, arity, minlength=len(tokens)).astype(np.int64)
        over = least > grammar.longest
        tokens[over] = least[over]
        arity[over[tree]] = 0
        levels.append(Level(tree, parent, word, arity))
        operator = levels[-1].operator
        if not len(operator):
            break
        counts = arity[operator]
        parent = np.repeat(np.arange(len(operator)), counts)
        sibling = _place(counts).astype(np.uint64) + np.uint64(1)
        tree, word = np.repeat(tree[operator], counts), finalised(np.repeat(word[operator], counts) + sibling * GAMMA)
    return levels, tokens


def _only(levels: list[Level], trees: Indices, count: int) -> list[Level]:
    """The nodes of some of `count` trees, renumbered 0, 1, 2 and so on."""
    number = np.full(count, -1)
    number[trees] = np.arange(len(trees))
    chosen, remaining = [], np.zeros(0, bool)
    for depth, level in enumerate(levels):
        nodes = np.flatnonzero(number[level.tree] >= 0)
        if not len(nodes):
            break
        parent = level.parent[nodes]
        if depth:  # number of the parent among the operators that are left
            parent = (np.cumsum(remaining) - 1)[parent]
        chosen.append(Level(number[level.tree[nodes]], parent, level.word[nodes], level.arity[nodes]))
        remaining = number[level.tree[level.operator]] >= 0
    return chosen


def _sequences(levels: list[Level], tokens: Int[np.ndarray, " trees"]) -> Sequences:
    """Trees as sequences. Lengths and values are computed from the leaves up, places of tokens from the root down."""
    sizes, values = [np.zeros(0, np.int64)] * len(levels), [np.zeros(0, np.int64)] * len(levels)
    for depth in reversed(range(len(levels))):
        level, operator = levels[depth], levels[depth].operator
        size, value = np.ones(len(level.arity), np.int64), _field(level.word, 40, LISTOPS_CLASSES)
        if len(operator):
            counts = level.arity[operator]
            first = np.cumsum(counts) - counts
            size[operator] = 2 + np.add.reduceat(sizes[depth + 1], first)
            value[operator] = _values(_field(level.word[operator], 0, 4), values[depth + 1], first, counts)
        sizes[depth], values[depth] = size, value
    store = np.empty(int(tokens.sum()), np.uint8)
    start = np.cumsum(tokens) - tokens
    for depth, level in enumerate(levels):
        operator = level.operator
        store[start] = np.where(level.arity > 0, OPERATOR + _field(level.word, 0, 4), DIGIT + values[depth])
        store[start[operator] + sizes[depth][operator] - 1] = CLOSE
        if len(operator):
            before = np.cumsum(sizes[depth + 1]) - sizes[depth + 1]
            counts = level.arity[operator]
            inside = before - np.repeat(before[np.cumsum(counts) - counts], counts)
            start = np.repeat(start[operator], counts) + 1 + inside
    return joined(store, tokens, values[0])


def _values(operator: Nodes, values: Nodes, first: Nodes, counts: Nodes) -> Nodes:
    """The value of each operator: it has `counts` arguments, beginning at `first`. A median between two values is
    rounded down."""
    sums = np.add.reduceat(values, first) % 10
    out = np.choose(operator, (np.minimum.reduceat(values, first), np.maximum.reduceat(values, first), sums, sums))
    medians = np.flatnonzero(operator == 2)
    if len(medians):
        counts = counts[medians]
        table = np.full((len(medians), counts.max()), 99)
        place = _place(counts)
        row = np.repeat(np.arange(len(medians)), counts)
        table[row, place] = values[np.repeat(first[medians], counts) + place]
        table.sort(axis=1)
        row = np.arange(len(medians))
        out[medians] = (table[row, (counts - 1) // 2] + table[row, counts // 2]) // 2
    return out


def _place(counts: Nodes) -> Nodes:
    """0, 1, ... counts[0] - 1, then 0, 1, ... counts[1] - 1, and so on."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def _field(word: Words, shift: int, values: int) -> Nodes:
    """A number below `values` from 20 bits of each word."""
    return ((word >> np.uint64(shift)) & np.uint64(0xFFFFF)).astype(np.int64) % values


def text(ids: UInt8[np.ndarray, " tokens"]) -> str:
    """A sequence as text."""
    return " ".join(LISTOPS_TOKENS[i] for i in ids)
