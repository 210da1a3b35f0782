"""Random numbers and order are functions of seed and place alone."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.data.randomness import Order, balanced, bits, key, normals, uniforms


def test_a_sample_draws_the_same_numbers_whoever_stands_beside_it() -> None:
    together = uniforms(key(3, "crop"), np.arange(1000), 4)
    alone = np.concatenate([uniforms(key(3, "crop"), np.array([i]), 4) for i in (0, 17, 999)])
    assert np.array_equal(together[[0, 17, 999]], alone)


def test_draws_are_the_published_splitmix64() -> None:
    # With key 0, sample 0 draws what SplitMix64 of seed 0 gives first: Vigna's published test values.
    words = bits(0, np.array([0]), 3)[0]
    assert [int(word) for word in words] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_draws_are_uniform_normal_and_unrelated_between_purposes() -> None:
    first, other = (uniforms(key(0, purpose), np.arange(50_000), 2) for purpose in ("crop", "flip"))
    assert first.min() >= 0
    assert first.max() < 1
    counts = np.histogram(first, 20, (0, 1))[0]
    assert abs(counts / 5000 - 1).max() < 0.06  # 4 deviations of a count of 5,000
    for a, b in ((first[:, 0], first[:, 1]), (first[:, 0], other[:, 0]), (first[:-1, 0], first[1:, 0])):
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.02
    bell = normals(key(0, "level"), np.arange(50_000), 2)
    assert np.isfinite(bell).all()
    assert abs(bell.mean()) < 0.02
    assert bell.std() == pytest.approx(1, abs=0.02)


def test_every_epoch_visits_every_sample_once_in_an_order_of_its_own() -> None:
    order = Order(1000, seed=1, batch=64)
    first, second = order.epoch(0).copy(), order.epoch(1).copy()
    assert sorted(first) == list(range(1000))
    assert sorted(second) == list(range(1000))
    assert (first == second).mean() < 0.02
    assert not np.array_equal(first, Order(1000, seed=2, batch=64).epoch(0))


def test_batches_run_over_the_border_of_epochs_without_dropping_samples() -> None:
    order = Order(100, seed=0, batch=32)
    seen = np.concatenate([order.at(order.places(step, range(32))) for step in range(25)])
    for epoch in range(8):
        assert sorted(seen[100 * epoch : 100 * (epoch + 1)]) == list(range(100))


def test_a_batch_larger_than_the_dataset_holds_whole_epochs() -> None:
    order = Order(10, seed=0, batch=35)
    seen = order.at(order.places(1, range(35)))
    assert np.array_equal(seen[5:15], order.epoch(4))
    assert np.bincount(seen, minlength=10).min() >= 3


def test_any_process_finds_the_same_samples_at_a_step_however_it_got_there() -> None:
    through, straight = Order(777, seed=5, batch=50), Order(777, seed=5, batch=50)
    for step in range(40):
        last = through.at(through.places(step, range(50)))
    parts = [straight.at(straight.places(39, range(start, start + 10))) for start in range(0, 50, 10)]
    assert np.array_equal(last, np.concatenate(parts))


def test_balanced_takes_one_of_each_class_in_turn() -> None:
    labels = np.array([2, 2, 0, 0, 0, 1, 2])
    assert balanced(labels).tolist() == [2, 5, 0, 3, 1, 4, 6]
    assert balanced(labels, 3).tolist() == [2, 5, 0]
