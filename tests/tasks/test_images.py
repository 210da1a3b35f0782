"""Image classification: batches are functions of seed, step and row; evaluation is exact; what does not fit is
refused."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from manyheads.arch import families, zoo
from manyheads.data import decoded_once
from manyheads.data.image_readers import read
from manyheads.models.build import build
from manyheads.spec.errors import UserError
from manyheads.tasks import Augment, Images, Rand, check, fit, open_task
from manyheads.tasks.images import ImageWork
from tests.data.written import write_folder

CPU = torch.device("cpu")
ALL = Augment(crop=2, flip=True, rand=Rand(), erase=0.3, mixup=0.8, cutmix=1.0, mix=0.9)
# fmt: off
AUGMENTS = {
    "nothing": Augment(), "crop and flip": Augment(crop=2, flip=True), "resized": Augment(resized=(0.3, 1.0), erase=0.5),
    "mixup": Augment(mixup=0.8), "cutmix": Augment(cutmix=1.0, mix=0.5), "all": ALL,
}
# fmt: on


def small(seed: int = 0, batch: int = 24, **fields: object) -> ImageWork:
    """Work on a hundred of the embedded images."""
    given: dict[str, object] = {"limit": 100, "test_limit": 50, **fields}
    return open_task(Images(**given), CPU, seed, batch)  # type: ignore[arg-type]


class Fixed(nn.Module):
    """A model that knows the answers: logits are looked up by the first pixels of an image."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(28 * 28, classes, generator=torch.Generator().manual_seed(0)))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight


@pytest.mark.parametrize("augment", AUGMENTS.values(), ids=AUGMENTS)
def test_a_batch_is_the_same_for_any_ranks_accumulation_and_resume(augment: Augment) -> None:
    work = small(augment=augment)
    for step in range(6):  # 24 x 6 crosses the end of the first epoch
        whole = work.batch(step, range(24))
        again = small(augment=augment)  # a process that starts here
        for size in (2, 4, 8, 12):
            parts = [again.batch(step, range(start, start + size)) for start in range(0, 24, size)]
            for mine, theirs in zip(whole, zip(*parts, strict=True), strict=True):
                assert torch.equal(mine, torch.cat(theirs))


def test_another_seed_gives_another_order_and_other_changes() -> None:
    first, second = (small(seed, augment=Augment(crop=2, flip=True)).batch(0, range(24)) for seed in (0, 1))
    assert not torch.equal(first[1], second[1])
    plain, changed = small(0).batch(0, range(24)), small(0, augment=Augment(crop=2, flip=True)).batch(0, range(24))
    assert torch.equal(plain[1], changed[1])  # the order does not depend on what is done to the images
    assert not torch.equal(plain[0], changed[0])


@pytest.mark.parametrize("augment", AUGMENTS.values(), ids=AUGMENTS)
def test_shapes_and_dtypes_are_the_same_at_every_step(augment: Augment) -> None:
    work = small(augment=augment)
    for step in range(8):
        images, targets = work.batch(step, range(24))
        assert (images.shape, images.dtype) == ((24, 1, 28, 28), torch.float32)
        if augment.mixes:
            assert (targets.shape, targets.dtype) == ((24, 10), torch.float32)
            assert torch.allclose(targets.sum(1), torch.ones(24))
        else:
            assert (targets.shape, targets.dtype) == ((24,), torch.int64)


def test_batches_leave_the_global_random_numbers_alone() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    small(augment=ALL).batch(0, range(24))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


def test_images_are_normalised_and_keep_their_labels() -> None:
    work = small(limit=None, batch=2000)
    images, labels = work.batch(0, range(2000))
    assert images.mean().item() == pytest.approx(0, abs=0.05)
    assert images.std().item() == pytest.approx(1, abs=0.05)
    train, _ = read("fashion_mnist", Path())
    chosen = work.source.order.at(np.arange(2000))
    assert np.array_equal(labels, train.labels[chosen])
    stored = torch.from_numpy(train.images[chosen[5], 0] / 255).float()
    assert torch.allclose(images[5, 0] * 0.3530 + 0.2860, stored, atol=1e-6)


def test_a_limit_keeps_as_many_of_each_class() -> None:
    work = small(limit=30, batch=30)
    assert work.samples == 30
    assert np.bincount(work.batch(0, range(30))[1]).tolist() == [3] * 10
    assert np.bincount(work.held_labels).tolist() == [5] * 10


def test_another_size_and_repeated_grey_fit_a_colour_model() -> None:
    task = Images(size=32, channels=3, limit=50, test_limit=20, augment=Augment(crop=2), normalise="half")
    work = open_task(task, CPU, 0, 8)
    images, _ = work.batch(0, range(8))
    assert images.shape == (8, 3, 32, 32)
    assert torch.equal(images[:, 0], images[:, 2])
    assert (images.min().item(), images.max().item()) == pytest.approx((-1, 1))
    assert work.probe_batch(4).shape == (4, 3, 32, 32)


def test_the_loss_is_smoothed_cross_entropy_also_of_soft_targets() -> None:
    model = Fixed()
    for augment in (Augment(), Augment(mixup=0.8)):
        work = small(augment=augment, label_smoothing=0.1)
        images, targets = work.batch(0, range(24))
        soft = targets if augment.mixes else functional.one_hot(targets, 10).float()
        plain = -((0.9 * soft + 0.01) * model(images).log_softmax(1)).sum(1).mean()
        assert torch.allclose(work.loss(model, images, targets), plain)


def test_a_distilled_model_learns_with_both_heads() -> None:
    arch = families.vit(16, 1, 2, 8, 32, image=28, patch=7, channels=1, classes=10, class_tokens=2, family="deit")
    model = build(arch, seed=0)
    for augment in (Augment(), Augment(cutmix=1.0)):
        work = small(augment=augment, label_smoothing=0.1)
        images, targets = work.batch(1, range(24))
        model.train()
        both = model(images)
        assert both.shape == (2, 24, 10)
        plain = sum(functional.cross_entropy(logits, targets, label_smoothing=0.1) for logits in both) / 2
        assert torch.allclose(work.loss(model, images, targets), plain)


def test_the_loss_compiles_in_one_graph() -> None:
    for augment in (Augment(), Augment(mixup=0.8)):
        work, model = small(augment=augment, label_smoothing=0.1), Fixed()
        whole = torch.compile(lambda *batch: work.loss(model, *batch), fullgraph=True, backend="eager")  # noqa: B023
        batch = work.batch(0, range(24))
        assert torch.equal(whole(*batch), work.loss(model, *batch))


def test_without_torchvision_and_pillow_all_but_randaugment_works() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(("torchvision", "PIL")))
import torch
from manyheads.tasks import Augment, Images, open_task
for crop in (Augment(crop=2, flip=True, mixup=0.8, cutmix=1.0, erase=0.2), Augment(resized=(0.3, 1.0))):
    work = open_task(Images(augment=crop, limit=50, test_limit=20, size=32), torch.device("cpu"), 0, 8)
    assert work.batch(0, range(8))[0].shape == (8, 1, 32, 32)
    assert work.probe_batch(4).shape == (4, 1, 32, 32)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_evaluation_is_exact_and_adds_up_over_parts() -> None:
    model = Fixed().train()
    for batch, parts in ((7, 1), (24, 1), (24, 4), (1000, 3)):
        work = small(test_limit=53, batch=batch)
        images = work.normalise(next(iter(work.source.held([np.arange(53)])))[0])
        logits, labels = model(images), torch.from_numpy(work.held_labels)
        tallies = [work.tally(model, (part, parts)) for part in range(parts)]
        scores = work.score({name: torch.stack([tally[name] for tally in tallies]).sum() for name in tallies[0]})
        assert scores["loss"] == pytest.approx(functional.cross_entropy(logits, labels).item(), rel=1e-6)
        assert scores["top1"] == (logits.argmax(1) == labels).sum().item() / 53
        assert scores["top5"] == (logits.topk(5).indices == labels[:, None]).any(1).sum().item() / 53
        assert all(tally["loss"].dtype == torch.float64 for tally in tallies)
    assert model.training


def test_every_part_of_an_evaluation_calls_the_model_equally_often_on_equal_shapes() -> None:
    work, shapes = small(test_limit=200, batch=120), []

    class Watched(Fixed):
        """Notes the shapes it is given."""

        def forward(self, images: Tensor) -> Tensor:
            shapes.append(tuple(images.shape))
            return super().forward(images)

    counts = []
    for part in range(3):
        before = len(shapes)
        work.tally(Watched(), (part, 3))
        counts.append(len(shapes) - before)
    assert counts == [2, 2, 2]
    assert set(shapes) == {(40, 1, 28, 28)}


def test_a_model_of_equal_logits_scores_the_trivial_and_a_broken_one_nothing() -> None:
    work = small()

    class Constant(nn.Module):
        """The same logits for every image."""

        def __init__(self, value: float) -> None:
            super().__init__()
            self.value = value

        def forward(self, images: Tensor) -> Tensor:
            return torch.full((len(images), 10), self.value)

    scores = work.score(work.tally(Constant(0.5), (0, 1)))
    assert scores == pytest.approx(work.trivial())
    assert work.trivial() == {"loss": math.log(10), "top1": 0.1, "top5": 0.5}
    broken = work.score(work.tally(Constant(float("nan")), (0, 1)))
    assert (broken["top1"], broken["top5"]) == (0, 0)
    assert math.isnan(broken["loss"])


def test_the_probe_sees_the_same_held_out_images_every_time() -> None:
    first, second = small(0, augment=ALL).probe_batch(20), small(5).probe_batch(20)
    assert torch.equal(first, second)
    _, test = read("fashion_mnist", Path())
    shown = test.first(50).images[[np.flatnonzero(test.first(50).labels == label)[0] for label in range(10)]]
    assert torch.allclose(first[:10, 0] * 0.3530 + 0.2860, torch.from_numpy(shown[:, 0] / 255).float(), atol=1e-6)
    with pytest.raises(UserError, match="50 are held out"):
        small().probe_batch(51)


def test_a_small_model_learns_the_embedded_images() -> None:
    arch = families.vit(32, 2, 2, 16, 64, image=28, patch=7, channels=1, classes=10)
    task = Images(augment=Augment(crop=2, flip=True), label_smoothing=0.1, test_limit=500)
    check(task, arch)
    work, model = open_task(task, CPU, 0, 64), build(arch, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    for step in range(250):
        loss = work.loss(model, *work.batch(step, range(64)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scores = work.score(work.tally(model, (0, 1)))
    assert scores["loss"] < 0.6 * work.trivial()["loss"]
    assert scores["top1"] > 0.5
    assert scores["top5"] > 0.9


def test_a_folder_streams_through_the_same_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANYHEADS_WORKERS", "1")
    monkeypatch.setattr(decoded_once, "MOST", 0)  # nothing fits
    write_folder(tmp_path / "colours")
    task = Images("folder:colours", size=16, classes=3, augment=ALL, centre=0.9)
    work, again = open_task(task, CPU, 0, 8, root=tmp_path), open_task(task, CPU, 0, 8, root=tmp_path)
    for step in range(7):
        whole, parts = work.batch(step, range(8)), [again.batch(step, rows) for rows in (range(4), range(4, 8))]
        assert whole[0].shape == (8, 3, 16, 16)
        for mine, theirs in zip(whole, zip(*parts, strict=True), strict=True):
            assert torch.equal(mine, torch.cat(theirs))
    tally = work.tally(nn.Sequential(nn.Flatten(), nn.Linear(768, 3)), (0, 1))
    assert tally["images"].item() == 15
    assert work.probe_batch(6).shape == (6, 3, 16, 16)
    assert work.waited > 0
    assert work.samples == 42
    with pytest.raises(UserError, match="has 3 classes, and the task says 4; write classes=3"):
        open_task(Images("folder:colours", size=16, classes=4), CPU, 0, 8, root=tmp_path)


def test_check_and_fit_put_model_and_images_together() -> None:
    task = Images("cifar10")
    with pytest.raises(UserError, match=r"3 x 32 x 32 .* takes 3 x 224 x 224; write Images\('cifar10', size=224"):
        check(task, zoo.get("vit_ti"))
    for name in ("vit_ti", "deit_ti", "xcit_m24", "davit_b"):
        fitted = fit(task, zoo.get(name))
        check(task, fitted)
        assert fitted.head.classes == 10  # type: ignore[union-attr]
    grey = Images(channels=3, size=32)
    check(grey, fit(grey, zoo.get("vit_ti")))
    with pytest.raises(UserError, match="10 classes and the model gives 7; build it with classes=10"):
        check(Images(), families.vit(16, 1, 2, 8, 32, image=28, patch=7, channels=1, classes=7))
    for refuse in (check, fit):
        with pytest.raises(UserError, match="a gpt2 model reads Token input"):
            refuse(task, zoo.get("gpt2"))


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"data": "mnist"}, "no image dataset"),
        ({"data": 7}, "Images.data is 7; write text"),
        ({"data": "folder:x"}, "states no size"),
        ({"data": "folder:x", "size": 224}, "states no classes"),
        ({"size": 0}, "Images.size is 0"),
        ({"size": "32"}, "whole number"),
        ({"classes": 11}, "has 10: leave it out"),
        ({"channels": 2}, "repeated to 3"),
        ({"data": "cifar10", "channels": 1}, "has 3: leave it out"),
        ({"label_smoothing": 2}, "from 0 to 1"),
        ({"centre": 0.9}, "whole images"),
        ({"normalise": "imagenet"}, "one of 'data', 'half'"),
        ({"augment": None}, "Augment"),
        ({"limit": -5}, "Images.limit is -5"),
    ],
)
def test_a_wrong_task_is_explained(fields: dict[str, object], told: str) -> None:
    with pytest.raises(UserError, match=told):
        Images(**fields)  # type: ignore[arg-type]


def test_mixing_needs_pairs() -> None:
    with pytest.raises(UserError, match="write an even one, 26"):
        small(batch=25, augment=Augment(mixup=0.8))
    work = small(augment=Augment(mixup=0.8))
    for rows in (range(3, 5), range(3)):
        with pytest.raises(UserError, match=r"rows 2k and 2k\+1 are mixed with each other"):
            work.batch(0, rows)


def test_missing_data_says_where_to_get_it_and_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"CIFAR-10 is not at .*cifar-10-batches-bin; get it from https://.*MANYHEADS_DATA"
    ):
        open_task(Images("cifar10"), CPU, 0, 8, root=tmp_path)
