"""Which samples are kept out of training is a function of their numbers alone, for ever."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from manyheads.data.image_readers import read
from manyheads.data.image_types import Pixels, kept_apart
from manyheads.data.validation import parted
from manyheads.spec.errors import UserError

KEPT = [0, 20, 24, 41, 57, 60, 70, 72, 92]  # of the numbers below 100, at a share of a tenth


def test_the_split_is_the_one_that_finished_runs_had() -> None:
    assert parted(np.arange(100), 0.1, "share")[1].tolist() == KEPT


def test_a_number_is_on_the_same_side_whichever_others_are_there() -> None:
    training, kept = parted(np.arange(20_000), 0.1, "share")
    assert sorted([*training, *kept]) == list(range(20_000))
    assert len(kept) == pytest.approx(2000, abs=150)
    some = np.arange(1, 20_000, 7)
    assert set(parted(some, 0.1, "share")[1]) == set(kept) & set(some)
    assert set(kept) < set(parted(np.arange(20_000), 0.2, "share")[1])


def test_a_split_without_samples_is_refused() -> None:
    with pytest.raises(UserError, match=r"Images.validation is 0.001, .* none of 20 training samples to validate on"):
        parted(np.arange(20), 0.001, "Images.validation")
    with pytest.raises(UserError, match=r"none of 1 training samples to train on; write a smaller share"):
        parted(np.array(KEPT[:1]), 0.1, "share")


def test_a_limit_comes_first_and_moves_no_image_to_the_other_side() -> None:
    train = read("fashion_mnist", Path())[0]
    assert isinstance(train, Pixels)
    numbered = Pixels(np.arange(len(train.labels))[:, None, None, None], train.labels)  # an image is its number
    sides = {limit: kept_apart(numbered, limit, 0.2, "share") for limit in (50, 500, None)}
    for limit, (training, kept) in sides.items():
        assert kept is not None
        assert len(training.labels) + len(kept.labels) == (limit or 10_000)
        whole = sides[None][1]
        assert whole is not None
        assert set(kept.images.flat) <= set(whole.images.flat)
        assert not set(training.images.flat) & set(whole.images.flat)
        assert np.array_equal(kept.labels, train.labels[kept.images.ravel()])
