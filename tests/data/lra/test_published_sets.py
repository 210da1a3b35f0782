"""IMDB, AAN and pixels are read from the folders people have; validation never touches the test set."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from manyheads.data.lra import published_sets
from manyheads.data.lra.sequences import Sequences
from manyheads.spec.errors import UserError

WORDS = [f"film {n} was {'good' if n % 2 else 'bad'} <br /> caf\u00e9" for n in range(400)]


def texts(split: Sequences) -> list[str]:
    """The texts of a split."""
    return [bytes(document).decode() for number in range(len(split)) for document in split.one(number)]


def write_folder(root: Path) -> None:
    """The official layout, with its unlabelled reviews."""
    for split, words in (("train", WORDS), ("test", [f"test {word}" for word in WORDS])):
        for name in ("neg", "pos", "unsup"):
            (root / "aclImdb" / split / name).mkdir(parents=True)
        (root / "aclImdb" / split / "unsup" / "0_0.txt").write_text("not labelled")
        for number, word in enumerate(words):
            name = "pos" if number % 2 else "neg"
            (root / "aclImdb" / split / name / f"{number}_7.txt").write_text(word)


def write_tables(root: Path, packed: bool) -> None:
    """The same as two tables."""
    (root / "imdb").mkdir(parents=True)
    for split, words in (("train", WORDS), ("test", [f"test {word}" for word in WORDS])):
        lines = "".join(f"{number % 2}\t7\t{word}\n" for number, word in enumerate(words)).encode()
        name = root / "imdb" / f"imdb_{split}.tsv"
        if packed:
            (root / "imdb" / f"imdb_{split}.tsv.xz").write_bytes(lzma.compress(lines))
        else:
            name.write_bytes(lines)


@pytest.mark.parametrize("kind", ["folder", "table", "packed"])
def test_reviews_are_read_from_each_layout_and_split_alike(kind: str, tmp_path: Path) -> None:
    write_folder(tmp_path) if kind == "folder" else write_tables(tmp_path, kind == "packed")
    found = published_sets.imdb(tmp_path)
    assert sorted(texts(found["train"]) + texts(found["valid"])) == sorted(WORDS)
    assert sorted(texts(found["test"])) == sorted(f"test {word}" for word in WORDS)
    for split in found.values():
        assert [("good" in text) for text in texts(split)] == split.labels.astype(bool).tolist()
    assert sorted(texts(found["valid"])) == sorted(
        word for word in WORDS if published_sets._in_validation(word.encode())
    )
    assert 20 < len(found["valid"]) < 60


def test_validation_is_taken_from_training_and_never_from_test(tmp_path: Path) -> None:
    write_folder(tmp_path)
    found = {name: set(texts(split)) for name, split in published_sets.imdb(tmp_path).items()}
    assert not found["valid"] & found["test"]
    assert not found["valid"] & found["train"]


def test_a_review_that_is_there_twice_stays_on_one_side(tmp_path: Path) -> None:
    write_folder(tmp_path)
    for number, word in enumerate(WORDS):
        (tmp_path / "aclImdb/train/pos" / f"{number + 1000}_1.txt").write_text(word)
    found = published_sets.imdb(tmp_path)
    assert not set(texts(found["valid"])) & set(texts(found["train"]))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"1\tno rating\n", "line 2 has 2 columns and begins"),
        (b"2\t7\ttext\n", "write label"),
        (b"1\t7\t\n", "line 2 holds no text"),
    ],
)
def test_a_wrong_table_is_explained(line: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "imdb_train.tsv").write_bytes(b"0\t1\tfine\n" + line)
    with pytest.raises(UserError, match=told):
        published_sets.imdb(tmp_path)


def test_reviews_that_are_not_there_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"IMDB is not at .*aclImdb; get it from"):
        published_sets.imdb(tmp_path)
    (tmp_path / "aclImdb/train/neg").mkdir(parents=True)
    with pytest.raises(UserError, match=r"neg has no \*.txt"):
        published_sets.imdb(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/imdb_train.tsv.xz").write_bytes(lzma.compress(b"0\t1\ttext\n")[:-9])
    with pytest.raises(UserError, match="cannot be read"):
        published_sets.imdb(tmp_path / "other")


PAPERS = {f"P{n:02}": f"paper {n} ".encode() * (n + 1) for n in range(9)}


def write_pairs(folder: Path, split: str, rows: list[tuple[str, str, str]]) -> None:
    """A file of LRA's archive."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [b"\t".join((label.encode(), a.encode(), b.encode(), PAPERS[a], PAPERS[b])) for label, a, b in rows]
    (folder / f"new_aan_pairs.{split}.tsv").write_bytes(b"\n".join(lines) + b"\n")


@pytest.mark.parametrize("folder", ["lra_release/lra_release/tsv_data", "aan", "."])
def test_pairs_of_papers_are_read_and_a_paper_is_kept_once(folder: str, tmp_path: Path) -> None:
    for split in ("train", "eval", "test"):
        write_pairs(tmp_path / folder, split, [("1", "P00", "P08"), ("0.0", "P08", "P03"), ("1.0", "P00", "P03")])
    found = published_sets.aan(tmp_path, 30)
    assert {name: len(split) for name, split in found.items()} == {"train": 3, "valid": 3, "test": 3}
    train = found["train"]
    assert train.labels.tolist() == [1, 0, 1]
    assert [bytes(text) for text in train.one(1)] == [PAPERS["P08"][:30], PAPERS["P03"][:30]]
    assert len(train.length) == 3
    assert np.array_equal(train.one(0)[0], train.one(2)[0])


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"1\tP1\tP2\tonly one text\n", "line 1 has 4 columns"),
        (b"yes\tP1\tP2\ta\tb\n", "write label"),
        (b"1\tP1\tP2\ta\t\n", "paper P2 has no text"),
        (b"", "is empty"),
    ],
)
def test_a_wrong_file_of_pairs_is_explained(line: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "new_aan_pairs.train.tsv").write_bytes(line)
    with pytest.raises(UserError, match=told):
        published_sets.aan(tmp_path, 4000)


def test_papers_that_are_not_there_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"AAN is not at .*new_aan_pairs.train.tsv"):
        published_sets.aan(tmp_path, 4000)
    write_pairs(tmp_path / "aan", "train", [("1", "P00", "P01")])
    with pytest.raises(UserError, match=r"new_aan_pairs.eval.tsv cannot be read \(No such file"):
        published_sets.aan(tmp_path, 4000)


def test_grey_is_the_brightness_that_lra_reads() -> None:
    colours = np.array([[255, 255, 255], [0, 0, 0], [255, 0, 0], [0, 255, 0], [0, 0, 255], [10, 20, 30]], np.uint8)
    found = published_sets.grey(colours[:, :, None, None])[:, 0, 0]
    assert found.tolist() == [255, 0, 76, 150, 29, 18]


def test_the_last_tenth_of_the_training_images_is_validation(tmp_path: Path) -> None:
    found = published_sets.pixel_rows("fashion_mnist", tmp_path)
    assert {name: len(split) for name, split in found.items()} == {"train": 9000, "valid": 1000, "test": 2000}
    assert all((split.lengths == 784).all() for split in found.values())
    images = [{split.one(n)[0].tobytes() for n in range(len(split))} for split in found.values()]
    assert not images[1] & images[2]
    assert not images[0] & images[1]
