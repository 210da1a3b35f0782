"""ListOps has the published distribution, its labels are right, and a sample depends on its number alone."""

from __future__ import annotations

import random
import statistics
import time

import numpy as np
import pytest

from manyheads.data.lra import listops
from manyheads.data.lra.listops import CLOSE, DIGIT, OPERATOR, sample
from manyheads.data.randomness import key
from manyheads.spec.errors import UserError
from manyheads.spec.generated import LISTOPS_TOKENS, Grammar

LRA = Grammar()
MANY = sample(key(0, "test"), np.arange(3000), LRA)
RULES = {"[MIN": min, "[MAX": max, "[MED": lambda v: int(statistics.median(v)), "[SM": lambda v: sum(v) % 10}


class Reader:
    """Reads a sequence by itself: its value, how deep it is nested, the arities of its operators."""

    def __init__(self, ids: np.ndarray) -> None:
        self.words = [LISTOPS_TOKENS[i] for i in ids]
        self.at, self.depth, self.arities = 0, 0, []
        self.value = self.read(1)
        assert self.at == len(self.words), "something stands behind the closing bracket"

    def read(self, depth: int) -> int:
        """The value of what begins here."""
        self.depth = max(self.depth, depth)
        word = self.words[self.at]
        self.at += 1
        if word.isdigit():
            return int(word)
        values = []
        while self.words[self.at] != "]":
            values.append(self.read(depth + 1))
        self.at += 1
        self.arities.append(len(values))
        return RULES[word](values)


def grown(draw: random.Random, depth: int = 1) -> tuple[object, int]:
    """A tree as the published description grows it, one node after the other; and its tokens."""
    if depth == 10 or draw.random() > 0.25:
        return draw.randrange(10), 1
    children = [grown(draw, depth + 1) for _ in range(draw.randint(2, 10))]
    return (draw.choice(list(RULES)), [tree for tree, _ in children]), 2 + sum(size for _, size in children)


def value(tree: object) -> int:
    """What comes out."""
    return RULES[tree[0]](list(map(value, tree[1]))) if isinstance(tree, tuple) else tree  # type: ignore


@pytest.fixture(scope="module")
def plain() -> tuple[list[int], list[int]]:
    """Lengths and values of 400 sequences grown the plain way."""
    draw, found = random.Random(0), []
    while len(found) < 400:
        tree, size = grown(draw)
        if 500 < size < 2000:
            found.append((size, value(tree)))
    return [size for size, _ in found], [result for _, result in found]


def test_every_label_is_the_value_of_its_sequence_brackets_included() -> None:
    for number in range(400):
        assert Reader(MANY.one(number)[0]).value == MANY.labels[number]


def test_depth_arity_and_length_keep_their_limits() -> None:
    read = [Reader(MANY.one(number)[0]) for number in range(400)]
    assert max(one.depth for one in read) == 10  # digits ten deep, operators nine
    arities = np.bincount([arity for one in read for arity in one.arities], minlength=11)
    assert arities[:2].sum() == 0
    assert len(arities) == 11
    assert np.allclose(arities[2:] / arities.sum(), 1 / 9, atol=0.01)
    assert 501 <= MANY.lengths.min() <= 510
    assert 1985 <= MANY.lengths.max() <= 1999


def test_operators_and_digits_are_equally_frequent() -> None:
    ids = np.bincount(np.concatenate([MANY.one(n)[0] for n in range(1000)]), minlength=16)
    assert ids[0] == 0
    assert ids[OPERATOR:CLOSE].sum() == ids[CLOSE]
    assert np.allclose(ids[DIGIT:OPERATOR] / ids[DIGIT:OPERATOR].sum(), 0.1, atol=0.002)
    assert np.allclose(ids[OPERATOR:CLOSE] / ids[CLOSE], 0.25, atol=0.004)


def test_lengths_and_labels_are_those_of_the_published_generator(plain: tuple[list[int], list[int]]) -> None:
    lengths, labels = plain
    error = np.hypot(np.std(lengths) / 20, MANY.lengths.std() / len(MANY) ** 0.5)
    assert abs(np.mean(lengths) - MANY.lengths.mean()) < 4 * error
    for quantile in (0.1, 0.5, 0.9):
        assert np.quantile(lengths, quantile) == pytest.approx(np.quantile(MANY.lengths, quantile), abs=80)
    ours, theirs = np.bincount(MANY.labels, minlength=10) / len(MANY), np.bincount(labels, minlength=10) / len(labels)
    assert np.abs(ours - theirs).max() < 0.08
    assert 0.15 < ours[0] < 0.19  # what a constant guess scores; 0 and 9 lead, as MIN and MAX make them
    assert 0.15 < ours[9] < 0.19


def test_a_sample_is_a_function_of_key_and_number() -> None:
    some = np.array([2999, 5, 1000])
    for place, number in enumerate(some):
        alone = sample(key(0, "test"), some, LRA)
        assert np.array_equal(alone.one(place)[0], MANY.one(number)[0])
        assert alone.labels[place] == MANY.labels[number]
    other = sample(key(1, "test"), np.arange(3), LRA)
    assert not np.array_equal(other.one(0)[0], MANY.one(0)[0])


def test_samples_are_distinct() -> None:
    assert len({MANY.one(number)[0].tobytes() for number in range(len(MANY))}) == len(MANY)


def test_what_a_key_gives_has_not_changed_in_this_version() -> None:
    """Kept sets are found by VERSION: whoever changes what a key gives raises it, and this value."""
    small = sample(1, np.arange(3), Grammar(depth=3, arity=3, shortest=6, longest=16))
    assert listops.VERSION == 1
    written = [listops.text(small.one(number)[0]) for number in range(3)]
    assert written == ["[SM 2 [SM 0 5 1 ] ]", "[MAX 0 [MAX 1 1 9 ] ]", "[MAX 7 [SM 7 3 8 ] ]"]
    assert small.labels.tolist() == [8, 9, 8]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"depth": 1}, "Grammar.depth is 1"),
        ({"arity": 1}, "Grammar.arity is 1"),
        ({"longest": 3}, "longest is 3"),
        ({"depth": 2, "arity": 3}, "has trees of 4 to 5 tokens, and shortest=501"),
        ({"shortest": 3000}, "shortest=3000"),
    ],
)
def test_a_grammar_without_trees_is_refused(settings: dict[str, int], told: str) -> None:
    with pytest.raises(UserError, match=told):
        Grammar(**settings)


def test_lengths_that_never_come_are_told_instead_of_waited_for() -> None:
    with pytest.raises(UserError, match="no tree of 5 to 6 tokens"):
        sample(0, np.arange(4), Grammar(arity=2, shortest=5, longest=6))


def test_a_hundred_thousand_take_less_than_a_minute_of_two_cores() -> None:
    began = time.process_time()
    sample(key(0, "speed"), np.arange(2000), LRA)
    assert 50 * (time.process_time() - began) < 100  # seconds of one core; measured: 15
