"""A result says which data its run was trained on; the id of the run does not, and missing data is found at once."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from manyheads.arch.families import vit
from manyheads.data.resident_images import Resident
from manyheads.interop.dataset_path import named_dataset
from manyheads.runs import Run, RunSpec
from manyheads.spec.errors import UserError
from manyheads.spec.long_range import ByteText, ListOps, PixelRow, Retrieval
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.task import Task
from manyheads.tasks import (
    Augment,
    Glue,
    Images,
    LanguageModel,
    check_data,
    data_digest,
    held_bytes,
    open_task,
    sample_count,
)
from manyheads.train.loop import train
from manyheads.train.progress import Silent
from tests.data.written import write_folder, write_image


def test_a_result_has_the_sha256_of_its_data(tmp_path: Path) -> None:
    arch = vit(8, 1, 1, 8, 8, image=28, patch=28, channels=1, classes=10)
    recipe = Recipe(batch=4, basis=Basis("steps", 1))
    run = Run.create(tmp_path / "run", RunSpec(arch, Images(limit=40, test_limit=20), recipe, 0))
    result = train(run, device="cpu", quiet=True)
    assert result["data_sha256"] == data_digest(Images())
    assert len(result["data_sha256"]) == 64


def test_other_images_of_the_same_name_have_another_sha256(tmp_path: Path) -> None:
    task = Images("folder:colours", size=16, classes=3)
    for name in ("a", "b", "c"):
        write_folder(tmp_path / name / "colours", train=2, val=1)
    write_image(tmp_path / "c" / "colours" / "val" / "red" / "000.png", (0, 0, 0))
    a, b, c = (data_digest(task, root=tmp_path / name) for name in ("a", "b", "c"))
    assert a == b != c


def test_the_sha256_is_that_of_the_images_which_were_there_when_training_began(tmp_path: Path) -> None:
    """Also where they are replaced or removed before it ends, and in a process that has read others of these names."""
    task, digests = Images("folder:colours", size=16, classes=3), []
    spec = RunSpec(vit(8, 1, 1, 8, 8, image=16, patch=8, classes=3), task, Recipe(batch=4, basis=Basis("steps", 2)), 0)
    folder = write_folder(tmp_path / "colours", train=2, val=1)
    image = folder / "train" / "red" / "000.png"
    for number, colour in enumerate([(0, 0, 0), (255, 255, 255)]):
        write_image(image, colour)
        digests.append(data_digest(task, root=tmp_path))
        run = Run.create(tmp_path / f"run{number}", spec)
        removed = Removing(image)
        result = train(run, device="cpu", root=tmp_path, progress=removed)
        assert removed.done
        assert result["data_sha256"] == digests[-1]
    assert digests[0] != digests[1]


class Removing(Silent):
    """Removes a file as soon as training has made a step."""

    def __init__(self, path: Path) -> None:
        self.path, self.done = path, False

    def move(self, step: int, progress: float, rate: float, numbers: Mapping[str, float]) -> None:
        """A step was made."""
        self.path.unlink(missing_ok=True)
        self.done = True


def test_a_digest_of_a_file_that_is_gone_names_it(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "colours", train=2, val=1)
    task = Images("folder:colours", size=16, classes=3)
    assert data_digest(task, root=tmp_path)
    (folder / "train" / "red" / "000.png").unlink()
    with pytest.raises(
        UserError, match=r"red/000\.png cannot be read: No such file or directory; replace or remove it"
    ):
        data_digest(task, root=tmp_path)


def test_text_is_known_by_its_shards_and_their_sources(tmp_path: Path) -> None:
    digests = set()
    for text in ("One story.\n\n" * 30, "Another story.\n\n" * 30):
        (tmp_path / "novel.txt").write_text(text)
        found = named_dataset(str(tmp_path / "novel.txt"), tmp_path, "bytes")
        task = LanguageModel(found.name, tokens=16, vocab=261, held=0.1)
        facts = data_digest(task, root=tmp_path)
        assert facts is not None
        digests.add(facts)
    assert len(digests) == 2
    assert data_digest(LanguageModel()) is not None


def test_what_the_record_decides_has_no_sha256() -> None:
    assert data_digest(ListOps()) is None
    assert data_digest(ByteText()) is None


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (Images("cifar10"), "CIFAR-10 is not at .*manyheads data cifar10"),
        (Images("fashion_mnist_full"), "Fashion-MNIST is not at"),
        (Images("tiny_imagenet"), "Tiny-ImageNet is not at"),
        (Images("folder:mine", size=32, classes=3), "the image folder mine is not at"),
        (PixelRow(data="cifar10"), "CIFAR-10 is not at"),
        (LanguageModel("shards:mine", vocab=9), "shards:mine is not at .*manyheads tokenize"),
        (Glue("rte"), "GLUE's RTE is not at"),
        (ByteText(data="imdb"), "IMDB is not at"),
        (Retrieval(data="aan"), "AAN is not at"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Task) else None,
)
def test_missing_data_says_where_to_get_it(task: Task, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words):
        check_data(task, root=tmp_path)


def test_the_images_that_a_run_keeps_on_its_device_are_known_before_it_starts(tmp_path: Path) -> None:
    write_folder(tmp_path / "colours", train=6, val=1)
    task = Images("folder:colours", size=16, classes=3)
    source = open_task(task, torch.device("cpu"), 0, 4, root=tmp_path).source  # type: ignore[attr-defined]
    assert isinstance(source, Resident)
    kept = [*(images for images, _ in source.splits.values()), torch.empty(18, 3, 16, 16, dtype=torch.uint8)]
    assert held_bytes(task, root=tmp_path) == sum(images.numel() for images in kept)
    crops = replace(task, augment=Augment(resized=(0.3, 1.0)))
    assert held_bytes(crops, root=tmp_path) == held_bytes(LanguageModel()) == 0  # streamed; text is mapped


@pytest.mark.parametrize("task", [Images(), LanguageModel(), ListOps(), ByteText(), PixelRow()])
def test_embedded_and_generated_data_is_here(task: Task, tmp_path: Path) -> None:
    check_data(task, root=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_epoch_is_counted_without_decoding(tmp_path: Path) -> None:
    write_folder(tmp_path / "colours", train=6, val=1)
    for fields in ({}, {"validation": 0.4}, {"limit": 9}):
        task = Images("folder:colours", size=16, classes=3, **fields)  # type: ignore[arg-type]
        counted = sample_count(task, 4, root=tmp_path)
        assert not (tmp_path / "decoded").exists()
        assert counted == open_task(task, torch.device("cpu"), 0, 4, root=tmp_path).samples
        shutil.rmtree(tmp_path / "decoded")
    assert sample_count(LanguageModel(), 4) == open_task(LanguageModel(), torch.device("cpu"), 0, 4).samples
