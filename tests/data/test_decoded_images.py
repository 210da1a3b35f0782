"""Files are decoded ahead by workers, and nothing about the batches depends on that."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from manyheads.data.decoded_images import Stream, worker_count
from manyheads.data.image_folders import image_folder
from manyheads.data.image_types import Terms
from manyheads.spec.errors import UserError
from manyheads.spec.images import Augment, Rand

from .written import write_folder

HEAVY = Augment(resized=(0.3, 1.0), flip=True, rand=Rand())
TERMS = Terms(HEAVY, size=16, fill=(0.5, 0.5, 0.5), seed=3, batch=12, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image folder of 42 training and 15 held-out pictures."""
    return write_folder(tmp_path_factory.mktemp("data") / "colours")


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> int:
    """How many worker processes a stream takes."""
    count = getattr(request, "param", 0)
    monkeypatch.setenv("MANYHEADS_WORKERS", str(count))
    return count


def stream(folder: Path, terms: Terms = TERMS) -> Stream:
    """The stream of an image folder."""
    return Stream(*image_folder(folder.parent, folder.name), terms)


def batches(source: Stream, steps: range, parts: int = 1, block: range = range(12)) -> list[torch.Tensor]:
    """Each step's rows of `block`, asked for in so many parts."""
    size = len(block) // parts
    cuts = [range(start, start + size) for start in range(block.start, block.stop, size)]
    return [torch.cat([source.batch(step, rows)[0] for rows in cuts]) for step in steps]


@pytest.mark.parametrize("workers", [0, 2], indirect=True)
def test_a_batch_is_the_same_for_any_parts_ranks_workers_and_resume(colours: Path, workers: int) -> None:
    whole = torch.stack(batches(stream(colours), range(5)))
    assert whole.shape == (5, 12, 3, 16, 16)
    assert whole.dtype == torch.uint8
    assert torch.equal(torch.stack(batches(stream(colours), range(5), parts=3)), whole)
    ranks = [torch.stack(batches(stream(colours), range(5), block=block)) for block in (range(6), range(6, 12))]
    assert torch.equal(torch.cat(ranks, dim=1), whole)
    assert torch.equal(torch.stack(batches(stream(colours), range(3, 5))), whole[3:])


def test_workers_change_nothing(colours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for count in ("0", "1", "2"):
        monkeypatch.setenv("MANYHEADS_WORKERS", count)
        made.append(torch.stack(batches(stream(colours), range(4))))
    assert torch.equal(made[0], made[1])
    assert torch.equal(made[0], made[2])


@pytest.mark.parametrize("workers", [1], indirect=True)
def test_after_its_first_step_the_loader_knows_what_is_asked_next(
    colours: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, begin = [], Stream._load
    monkeypatch.setattr(Stream, "_load", lambda *given: starts.append(1) or begin(*given))  # type: ignore[func-returns-value]
    source = stream(colours)
    batches(source, range(6), parts=3)
    assert len(starts) == 3  # one for each part that the first step turned out to have
    batches(source, range(20, 22), parts=3)
    assert len(starts) == 6


@pytest.mark.parametrize("workers", [1], indirect=True)
def test_prefetching_leaves_the_global_random_numbers_alone(colours: Path, workers: int) -> None:
    before = torch.get_rng_state()
    batches(stream(colours), range(2))
    assert torch.equal(torch.get_rng_state(), before)


def test_an_epoch_shows_every_picture_once_with_its_label(colours: Path, workers: int) -> None:
    source = stream(colours, replace(TERMS, augment=Augment(), batch=21))
    images, labels = (
        torch.cat(parts) for parts in zip(*(source.batch(step, range(21)) for step in range(2)), strict=True)
    )
    assert np.bincount(labels).tolist() == [14, 14, 14]
    brightest = images.float().mean((2, 3)).argmax(1)  # red, green, blue
    assert torch.equal(2 - brightest, labels)


def test_held_out_pictures_are_scaled_to_the_shorter_side_and_cut_in_the_middle(tmp_path: Path, workers: int) -> None:
    ramp = np.broadcast_to(np.arange(64, dtype=np.uint8)[None, :, None] * 4, (32, 64, 3))
    for split in ("train", "val"):
        (tmp_path / "ramp" / split / "only").mkdir(parents=True)
        Image.fromarray(np.ascontiguousarray(ramp)).save(tmp_path / "ramp" / split / "only" / "1.png")
    for centre, (low, high) in ((1.0, (16, 48)), (0.5, (24, 40))):
        source = stream(tmp_path / "ramp", replace(TERMS, size=16, centre=centre))
        ((image, label),) = source.held([np.array([0])])
        assert label.tolist() == [0]
        edges = image[0, 0, 8, [0, -1]].float() / 4
        assert edges.tolist() == pytest.approx([low + 0.5, high - 1.5], abs=1.6)


@pytest.mark.parametrize("workers", [0, 2], indirect=True)
def test_a_broken_file_is_named_in_one_sentence(tmp_path: Path, workers: int) -> None:
    folder = write_folder(tmp_path / "broken", train=2, val=2)
    victim = folder / "train" / "green" / "001.jpg"
    victim.write_bytes(victim.read_bytes()[:200])
    source = stream(folder)
    with pytest.raises(UserError, match=r"green/001\.jpg is no image that can be read") as told:
        batches(source, range(3))
    assert "\n" not in str(told.value)
    assert "Traceback" not in str(told.value)


@pytest.mark.parametrize("workers", [2], indirect=True)
def test_a_signal_to_stop_leaves_the_workers_to_the_process_that_trains(colours: Path, workers: int) -> None:
    source, whole = stream(colours), torch.stack(batches(stream(colours), range(6)))
    first = batches(source, range(2))
    for worker in active_children():  # from a process that is not their parent, as a scheduler's signals are
        subprocess.run(["bash", "-c", f"kill -TERM {worker.pid}; kill -INT {worker.pid}"], check=True)
    assert torch.equal(torch.stack(first + batches(source, range(2, 6))), whole)


@pytest.mark.parametrize("workers", [2], indirect=True)
def test_a_stream_that_is_let_go_takes_its_workers_along(colours: Path, workers: int) -> None:
    before = set(active_children())
    source = stream(colours)
    batches(source, range(2), parts=2)
    next(source.held([np.arange(3)]))
    assert len(set(active_children()) - before) >= 2
    del source
    assert set(active_children()) <= before


@pytest.mark.parametrize("workers", [2], indirect=True)
def test_a_process_ends_although_its_stream_is_still_open(colours: Path, workers: int) -> None:
    code = f"""
import gc, torch
from pathlib import Path
from tests.data.test_decoded_images import batches, stream
gc.disable()
source = stream(Path({str(colours)!r}))
source.cycle = source
batches(source, range(2))
"""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=Path(__file__).parents[2])
    assert time.perf_counter() - started < 30


@pytest.mark.parametrize("workers", [1], indirect=True)
def test_waiting_is_measured(colours: Path, workers: int) -> None:
    source = stream(colours)
    began = time.perf_counter()
    batches(source, range(3))
    spent = time.perf_counter() - began
    assert 0 < source.waited <= spent


@pytest.mark.parametrize("workers", [1], indirect=True)
def test_what_comes_next_is_decoded_during_a_training_step(tmp_path: Path, workers: int) -> None:
    folder = write_folder(tmp_path / "gone", train=8)
    whole = torch.stack(batches(stream(folder), range(3)))
    source = stream(folder)
    first = batches(source, range(1))
    time.sleep(2)  # a slow training step
    shutil.rmtree(folder)
    assert torch.equal(torch.stack(first + batches(source, range(1, 3))), whole)


def test_the_number_of_workers_can_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MANYHEADS_WORKERS", "5")
    assert worker_count() == 5
    monkeypatch.setenv("MANYHEADS_WORKERS", "many")
    with pytest.raises(UserError, match="MANYHEADS_WORKERS is 'many'"):
        worker_count()
    monkeypatch.delenv("MANYHEADS_WORKERS")
    assert worker_count() >= 1
