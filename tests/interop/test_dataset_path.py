"""`--data PATH` takes what people have: folders of images in the usual layouts, text files, Hugging Face datasets."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from manyheads.arch.families import gpt2, vit
from manyheads.data.image_readers import read
from manyheads.data.image_types import Files
from manyheads.data.made_once import made_once
from manyheads.data.text.corpora import corpus, tokenizer
from manyheads.interop.dataset_path import named_dataset
from manyheads.interop.stated_run import Stated, planned
from manyheads.spec.errors import UserError
from tests.data.written import COLOURS, write_folder, write_image

Image = pytest.importorskip("PIL.Image", reason="pillow comes with torchvision, in the vision extra")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The data root."""
    return tmp_path / "root"


def classes(folder: Path, count: int = 12) -> Path:
    """An ImageFolder without a split."""
    for name, colour in COLOURS.items():
        for i in range(count):
            write_image(folder / name / f"{name}_{i}.png", colour, (16, 16), seed=i)
    return folder


def images(name: str, root: Path) -> tuple[Files, Files]:
    train, val = read(name, root)
    assert isinstance(train, Files)
    assert isinstance(val, Files)
    return train, val


def test_a_folder_of_classes_holds_out_a_tenth_of_each(tmp_path: Path, root: Path) -> None:
    found = named_dataset(str(classes(tmp_path / "photos", 20)), root)
    assert found.name.startswith("folder:own/photos-")
    train, val = images(found.name, root)
    assert np.bincount(train.labels).tolist() == [18, 18, 18]
    assert np.bincount(val.labels).tolist() == [2, 2, 2]
    assert not set(train.paths) & set(val.paths)
    assert named_dataset(str(tmp_path / "photos"), root) == found
    moved = (tmp_path / "photos").rename(tmp_path / "elsewhere") / "."
    assert named_dataset(str(moved), root).name.rpartition("-")[2] == found.name.rpartition("-")[2]
    write_image(moved / "red" / "one_more.png", (255, 0, 0))
    assert named_dataset(str(moved), root).name.rpartition("-")[2] != found.name.rpartition("-")[2]


def test_other_images_with_the_same_names_and_sizes_are_another_dataset(tmp_path: Path, root: Path) -> None:
    """Two people have a folder of the same name; images of one size in BMP have the same number of bytes."""
    names = []
    for person, seed in (("alice", 0), ("bob", 1)):
        for name, colour in COLOURS.items():
            for i in range(3):
                write_image(tmp_path / person / "photos" / name / f"{i}.bmp", colour, (16, 16), seed=seed)
        names.append(named_dataset(str(tmp_path / person / "photos"), root).name)
    assert names[0] != names[1]
    train, _ = images(names[1], root)
    assert all(b"/bob/" in os.path.realpath(path) for path in train.paths.tolist())


def test_images_that_were_moved_are_found_again(tmp_path: Path, root: Path) -> None:
    found = named_dataset(str(classes(tmp_path / "photos", 4)), root)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "photos").rename(tmp_path / "elsewhere" / "photos")
    assert named_dataset(str(tmp_path / "elsewhere" / "photos"), root) == found
    for split in images(found.name, root):
        assert all(os.path.isfile(path) for path in split.paths.tolist())
    assert not list((root / "own").rglob("*.part*"))


@pytest.mark.parametrize("held", ["val", "valid", "validation", "test"])
def test_a_folder_with_a_split_is_used_as_it_is(held: str, tmp_path: Path, root: Path) -> None:
    folder = write_folder(tmp_path / "here", train=2, val=1)
    (folder / "val").rename(folder / held)
    train, val = images(named_dataset(str(folder), root).name, root)
    assert (len(train.labels), len(val.labels)) == (6, 3)


def test_a_folder_below_the_data_root_keeps_its_name(tmp_path: Path, root: Path) -> None:
    folder = write_folder(root / "colours", train=2, val=1)
    assert named_dataset(str(folder), root).name == f"folder:{folder.name}"
    assert not (root / "own").exists()


@pytest.mark.parametrize(("train", "val"), [("training", "val"), ("train", "valid")])
def test_a_folder_below_the_data_root_with_other_names_for_its_splits_gets_ours(
    train: str, val: str, tmp_path: Path, root: Path
) -> None:
    folder = write_folder(root / "pics", train=2, val=1)
    (folder / "train").rename(folder / train)
    (folder / "val").rename(folder / val)
    found = named_dataset(str(folder), root)
    assert found.name.startswith("folder:own/pics-")
    assert [len(split.labels) for split in images(found.name, root)] == [6, 3]


def test_images_in_folders_below_their_class_are_all_kept(tmp_path: Path, root: Path) -> None:
    folder = classes(tmp_path / "photos", 2)
    for number, name in enumerate(("x/y-z.png", "x-y/z.png", "x-y-z.png", "2-x-y-z.png")):
        write_image(folder / "red" / name, COLOURS["red"], (16, 16), seed=number)
    splits = images(named_dataset(str(folder), root).name, root)
    files = {os.path.realpath(path) for split in splits for path in split.paths.tolist()}
    assert files == {os.fsencode(path.resolve()) for path in folder.rglob("*.png")}


def test_a_class_with_one_image_is_refused(tmp_path: Path, root: Path) -> None:
    with pytest.raises(UserError, match="class blue has one image"):
        named_dataset(str(classes(tmp_path / "photos", 1)), root)
    with pytest.raises(UserError, match="has 1 folders of images; write a folder for each class"):
        named_dataset(str(single(tmp_path / "single")), root)


def single(folder: Path) -> Path:
    write_image(folder / "red" / "a.png", (255, 0, 0))
    return folder


def png(colour: tuple[int, int, int]) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (16, 16), colour).save(file, "PNG")
    return file.getvalue()


def image_table(arrow: object, count: int, names: bool) -> object:
    """A table as the Hugging Face hub has them: bytes beside a path, numbers of classes, their names in the metadata."""
    rows = [{"image": {"bytes": png((i, 0, i % 2 * 255)), "path": None}, "label": i % 2} for i in range(count)]
    table = arrow.Table.from_pylist(rows)  # type: ignore[attr-defined]
    features = {"label": {"names": ["cat", "a/dog"], "_type": "ClassLabel"}}
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    return table.replace_schema_metadata(metadata if names else None)


def test_images_of_a_hugging_face_dataset_become_files(tmp_path: Path, root: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="reading Parquet takes pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="reading Parquet takes pyarrow")
    folder = tmp_path / "pets" / "data"
    folder.mkdir(parents=True)
    parquet.write_table(image_table(arrow, 30, names=True), folder / "train-00000-of-00001.parquet")
    parquet.write_table(image_table(arrow, 6, names=True), folder / "test-00000-of-00001.parquet")
    found = named_dataset(str(tmp_path / "pets"), root)
    train, val = images(found.name, root)
    assert (np.bincount(train.labels).tolist(), np.bincount(val.labels).tolist()) == ([15, 15], [3, 3])
    assert b"0_cat" in train.paths[0]
    assert b"1_a_dog" in train.paths[-1]
    parquet.write_table(image_table(arrow, 40, names=False), tmp_path / "one.parquet")
    train, val = images(named_dataset(str(tmp_path / "one.parquet"), root).name, root)
    assert (len(train.labels), len(val.labels)) == (36, 4)


def saved_to_disk(folder: Path, texts: list[str]) -> None:
    """A split as the library `datasets` saves it: one Arrow stream, and JSON beside it."""
    arrow = pytest.importorskip("pyarrow", reason="reading Arrow takes pyarrow")
    table = arrow.table({"text": texts, "id": list(range(len(texts)))})
    folder.mkdir(parents=True)
    file = folder / "data-00000-of-00001.arrow"
    with arrow.OSFile(str(file), "wb") as stream, arrow.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text("{}")


STORY = ["Once upon a time.", "There was a cat.\n\nIt sat.", "The end."]


def test_text_of_a_hugging_face_dataset_is_tokenized(tmp_path: Path, root: Path) -> None:
    saved_to_disk(tmp_path / "stories" / "train", STORY * 5)
    saved_to_disk(tmp_path / "stories" / "validation", STORY)
    (tmp_path / "stories" / "dataset_dict.json").write_text('{"splits": ["train", "validation"]}')
    found = named_dataset(str(tmp_path / "stories"), root, "bytes")
    assert found.fields == {}
    made = corpus(found.name, root)
    assert made.train.manifest.documents == 15
    assert made.held.manifest.documents == 3


def folder_of_files(folder: Path) -> Path:
    for i, text in enumerate(STORY):
        (folder / "part").mkdir(parents=True, exist_ok=True)
        (folder / "part" / f"{i}.txt").write_text(text)
    return folder


def file_with_marks(folder: Path) -> Path:
    folder.mkdir()
    (folder / "all.txt").write_text("<|endoftext|>".join(STORY))
    return folder / "all.txt"


def file_with_empty_lines(folder: Path) -> Path:
    folder.mkdir()
    (folder / "all.txt").write_text("\n\n".join(text.replace("\n\n", "\n") for text in STORY))
    return folder / "all.txt"


def json_lines(folder: Path) -> Path:
    folder.mkdir()
    (folder / "all.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in STORY))
    return folder / "all.jsonl"


@pytest.mark.parametrize("write", [folder_of_files, file_with_marks, file_with_empty_lines, json_lines])
def test_text_is_divided_into_its_documents(write: Callable[[Path], Path], tmp_path: Path, root: Path) -> None:
    found = named_dataset(str(write(tmp_path / "mine")), root, "bytes")
    assert found.fields == {"held": 0.1}
    assert corpus(found.name, root, held=0.1).train.manifest.documents == 3


def test_files_of_held_out_text_are_known_by_their_names(tmp_path: Path, root: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name in ("train.txt", "valid.txt", "test.txt", "validated_names.txt"):
        (tmp_path / "mine" / name).write_text(f"{name} " * 9)
    found = named_dataset(str(tmp_path / "mine"), root, "bytes")
    made = corpus(found.name, root)
    assert found.fields == {}
    assert [file.name for file in made.train.manifest.sources] == ["train.txt", "validated_names.txt"]
    assert [file.name for file in made.held.manifest.sources] == ["valid.txt"]


def test_text_takes_the_named_tokenizer_or_the_models(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tokenizers", reason="tokenizers is in the hf extra")
    text = file_with_empty_lines(tmp_path / "mine")
    arch = gpt2(16, 2, 2, 8, 32, vocab=2048, tokens=16, positions=16)
    assert tokenizer(named_dataset(str(text), root, "bytes", arch=arch).name, root).name == "bytes"
    assert tokenizer(named_dataset(str(text), root, arch=arch).name, root).name == "stories"
    assert "tokenized with stories: it has the model's number of ids" in capsys.readouterr().err
    made, task, _ = planned(arch, Stated(data=str(text), root=root, tokenizer="bytes"))
    assert (made.embed.vocab, task.vocab, task.held) == (261, 261, 0.1)  # type: ignore[union-attr, attr-defined]


def test_a_model_is_built_for_the_classes_of_the_folder(tmp_path: Path, root: Path) -> None:
    arch = vit(16, 2, 2, 8, 32, image=16, patch=8, classes=10)
    made, task, _ = planned(arch, Stated(data=str(classes(tmp_path / "photos", 3)), root=root))
    assert (made.head.classes, task.classes, task.size) == (3, 3, 16)  # type: ignore[union-attr, attr-defined]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist; give images as"),
        (lambda path: path.mkdir(), "holds neither images nor text; give images as"),
        (lambda path: path.write_bytes(b"\0\1"), "holds neither images nor text"),
    ],
    ids=("missing", "empty", "other"),
)
def test_a_path_with_nothing_in_it_says_what_is_wanted(
    make: Callable[[Path], object], words: str, tmp_path: Path, root: Path
) -> None:
    make(tmp_path / "mine")
    with pytest.raises(UserError, match=words):
        named_dataset(str(tmp_path / "mine"), root)
    assert not root.exists()


def test_what_was_not_finished_is_made_anew(tmp_path: Path) -> None:
    def fails(place: Path) -> None:
        (place / "half").write_text("a")
        raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match=r"cannot be written: No space left on device; .* make room and start again"):
        made_once(tmp_path / "it", fails, "it")
    assert [path.name for path in tmp_path.iterdir()] == [".it.lock"]
    made_once(tmp_path / "it", lambda place: (place / "whole").write_text("a"), "it")
    assert [path.name for path in (tmp_path / "it").iterdir()] == ["whole"]
