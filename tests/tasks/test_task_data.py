"""A result says which data its run was trained on; the id of the run does not, and missing data is found at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from manyheads.arch.families import vit
from manyheads.interop.dataset_path import named_dataset
from manyheads.runs import Run, RunSpec
from manyheads.spec.errors import UserError
from manyheads.spec.long_range import ByteText, ListOps, PixelRow, Retrieval
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.task import Task
from manyheads.tasks import Glue, Images, LanguageModel, check_data, data_digest
from manyheads.train.loop import train
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


@pytest.mark.parametrize("task", [Images(), LanguageModel(), ListOps(), ByteText(), PixelRow()])
def test_embedded_and_generated_data_is_here(task: Task, tmp_path: Path) -> None:
    check_data(task, root=tmp_path)
    assert list(tmp_path.iterdir()) == []
