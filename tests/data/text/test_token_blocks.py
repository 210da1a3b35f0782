"""Sequences and hidden tokens are functions of seed, step and row; every block is dealt once an epoch."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from manyheads.data.text.shards import Tokens
from manyheads.data.text.token_blocks import Packed, hiding
from manyheads.spec.datasets import BLOCK_ORDERS
from manyheads.spec.errors import UserError

ROW = Tokens([np.arange(100, dtype=np.uint16), np.arange(100, 1003, dtype=np.uint16)])


def packed(dealt: str = "shuffled", seed: int = 0, batch: int = 6, more: int = 1) -> Packed:
    """Blocks of 10 out of 1,003 ids that say where they stand."""
    return Packed(ROW, 10, more, dealt, seed, batch)  # type: ignore[arg-type]


@pytest.mark.parametrize("dealt", BLOCK_ORDERS)
def test_a_batch_is_the_same_for_any_ranks_accumulation_and_resume(dealt: str) -> None:
    first = packed(dealt)
    for step in (0, 1, 16, 40):
        whole = first.batch(step, range(6))
        again = packed(dealt)  # a process that starts here
        for size in (1, 2, 3):
            parts = [again.batch(step, range(start, start + size)) for start in range(0, 6, size)]
            assert np.array_equal(np.concatenate(parts), whole)
        assert whole.shape == (6, 11)
        assert (np.diff(whole, axis=1) == 1).all()


def test_every_block_comes_once_an_epoch_in_another_order_each() -> None:
    for more, blocks in ((1, 100), (0, 100)):
        deal = packed(batch=10, more=more)
        assert deal.samples == blocks
        epochs = [np.concatenate([deal.starts(step, range(10)) for step in range(10 * e, 10 * e + 10)]) for e in (0, 1)]
        for starts in epochs:
            assert sorted(starts) == list(range(0, 1000, 10))
        assert not np.array_equal(*epochs)
    given = packed("given", batch=10)
    assert given.starts(0, range(10)).tolist() == list(range(0, 100, 10))
    assert np.array_equal(given.starts(10, range(10)), given.starts(0, range(10)))
    assert not np.array_equal(packed(seed=1).starts(0, range(6)), packed(seed=2).starts(0, range(6)))


def test_random_sequences_come_from_everywhere() -> None:
    deal = packed("random", batch=5000)
    starts = deal.starts(0, range(5000))
    assert (starts.min(), starts.max()) == (0, 992)  # the last one reads to the last id
    counts = np.bincount(starts // 100, minlength=10)[:9]
    assert counts.min() > 400
    assert deal.batch(0, range(50)).max() <= 1002


def test_too_little_text_is_told() -> None:
    with pytest.raises(UserError, match=r"1003 ids do not fill one sequence of 2000; .* tokens=1002"):
        Packed(ROW, 2000, 1, "shuffled", 0, 4)


@pytest.mark.parametrize("tokens", [128, 16, 5])
def test_exactly_a_quarter_is_hidden_and_26_of_32_masked(tokens: int) -> None:
    hide = hiding(tokens, 0.25, mask=4, vocab=1000, protected=(0, 1))
    assert (hide.chosen, hide.masked, hide.swapped) == {128: (32, 26, 3), 16: (4, 3, 0), 5: (1, 1, 0)}[tokens]
    ids = np.random.default_rng(0).integers(5, 1000, (400, tokens))
    ids[:, 3] = 1
    hidden, at, targets = hide(ids, np.arange(400), seed=7)
    assert at.shape == targets.shape == (400, hide.chosen)
    assert all(len(set(row)) == hide.chosen for row in at.tolist())
    assert np.array_equal(np.take_along_axis(ids, at, 1), targets)
    assert not (at == 3).any()  # protected
    rest = np.ones_like(ids, dtype=bool)
    np.put_along_axis(rest, at, False, 1)
    assert np.array_equal(hidden[rest], ids[rest])
    shown = np.take_along_axis(hidden, at, 1)
    assert (shown[:, : hide.masked] == 4).all()
    assert np.array_equal(shown[:, hide.masked + hide.swapped :], targets[:, hide.masked + hide.swapped :])
    swapped = shown[:, hide.masked : hide.masked + hide.swapped]
    if swapped.size:
        assert (swapped != targets[:, hide.masked : hide.masked + hide.swapped]).mean() > 0.97
        assert 300 < swapped.mean() < 700


def test_positions_are_uniform_and_a_function_of_place_and_seed() -> None:
    hide = hiding(16, 0.25, mask=4, vocab=100)
    ids = np.full((4000, 16), 9)
    _, at, _ = hide(ids, np.arange(4000), 0)
    share = Counter(at.flatten().tolist())
    assert max(share.values()) < 1.12 * 1000
    assert min(share.values()) > 0.88 * 1000
    part = hide(ids[:7], np.arange(100, 107), 0)
    for mine, whole in zip(part, hide(ids, np.arange(4000), 0), strict=True):
        assert np.array_equal(mine, whole[100:107])
    assert not np.array_equal(hide(ids, np.arange(4000), 1)[1], at)


def test_a_sequence_of_protected_tokens_still_has_as_many_hidden() -> None:
    hide = hiding(16, 0.25, mask=4, vocab=100, protected=(1,))
    ids = np.ones((3, 16), dtype=np.int64)
    ids[1, 5] = 9
    _, at, _ = hide(ids, np.arange(3), 0)
    assert [len(set(row)) for row in at.tolist()] == [4, 4, 4]
    assert at[1, 0] == 5
