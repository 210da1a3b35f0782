"""Made-up documents can be told apart by reading them, and not by counting their letters."""

from __future__ import annotations

import numpy as np
import pytest

from manyheads.data.lra.made_up_texts import topic_documents, topic_pairs
from manyheads.spec.errors import UserError
from manyheads.spec.generated import Topics


def alike(made: Topics, count: int, size: int) -> float:
    """How often the likeness of two documents' counts tells whether they share a topic: of bytes (size 1), of
    topic_pairs (2)."""
    found = topic_pairs(3, np.arange(count), made)
    texts = [document.astype(np.int64) % 32 for sample in range(count) for document in found.one(sample)]
    codes = [text if size == 1 else text[:-1] * 32 + text[1:] for text in texts]
    counts = np.stack([np.bincount(code, minlength=32**size) / len(code) for code in codes])
    counts = ((counts - counts.mean(0)) / (counts.std(0) + 1e-9)).reshape(count, 2, -1)
    length = np.linalg.norm(counts, axis=-1)
    cosine = (counts[:, 0] * counts[:, 1]).sum(-1) / (length[:, 0] * length[:, 1])
    return max(np.mean((cosine > cut) == found.labels) for cut in np.unique(cosine))


def test_letters_alone_say_nothing_and_their_order_says_much() -> None:
    assert alike(Topics(), 400, 1) < 0.57
    assert alike(Topics(), 400, 2) > 0.95


def test_with_taste_letters_alone_say_something() -> None:
    assert 0.58 < alike(Topics(taste=0.5), 400, 1) < 0.75
    assert alike(Topics(taste=0.5), 400, 2) > 0.97


def test_without_a_share_of_their_own_documents_cannot_be_told_apart() -> None:
    assert alike(Topics(share=0.0, taste=1.0), 300, 2) < 0.6


def test_topics_spell_the_same_words_in_their_own_order() -> None:
    found = topic_documents(0, np.arange(200), Topics(count=2, share=1.0, shortest=400, longest=400))
    spelt: list[set[bytes]] = [set(), set()]
    for sample in range(200):
        (text,) = found.one(sample)
        spelt[found.labels[sample]].update(bytes(text).split(b" ")[:-1])  # the last word may be cut
    sets = [{bytes(sorted(word)) for word in words} for words in spelt]
    assert len(spelt[0]) > 400
    assert sets[0] == sets[1]
    assert len(spelt[0] & spelt[1]) < 0.3 * len(spelt[0])


def test_lengths_keep_their_limits_and_labels_their_balance() -> None:
    made = Topics(count=4, shortest=30, longest=90)
    found, both = topic_documents(0, np.arange(800), made), topic_pairs(0, np.arange(800), made)
    assert (found.lengths.min(), found.lengths.max()) == (30, 90)
    assert (np.bincount(found.labels) == 200).all()
    assert (both.labels.reshape(-1, 2).sum(1) == 1).all()
    assert both.documents.shape == (800, 2)
    assert abs(np.corrcoef(both.lengths.sum(1), both.labels)[0, 1]) < 0.1


def test_a_document_is_a_function_of_key_and_number() -> None:
    made = Topics(shortest=50, longest=80)
    many, some = topic_pairs(1, np.arange(300), made), topic_pairs(1, np.array([299, 4]), made)
    for place, number in enumerate((299, 4)):
        assert all(np.array_equal(a, b) for a, b in zip(some.one(place), many.one(number), strict=True))
        assert some.labels[place] == many.labels[number]
    assert not np.array_equal(topic_pairs(2, np.array([4]), made).one(0)[0], some.one(1)[0])


@pytest.mark.parametrize(
    ("settings", "told"),
    [({"count": 1}, "Topics.count is 1"), ({"share": 2}, "share is 2"), ({"shortest": 9, "longest": 5}, "at most 5")],
)
def test_a_setting_that_makes_no_documents_is_refused(settings: dict, told: str) -> None:
    with pytest.raises(UserError, match=told):
        Topics(**settings)
