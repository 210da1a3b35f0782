"""Image files as batches, decoded by worker processes ahead of the training step.

Order and augmentation depend on the samples' places, not on the worker. The stream learns from the calls which rows
this process needs in a step (a rank's block, in as many parts as gradients are accumulated) and fetches the same rows
of the following steps ahead; an unexpected call starts it anew. Workers crop and mirror with torchvision's v2
transforms; RandAugment, erasing and mixing are applied to whole batches on the device."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor
from torch.utils.data import DataLoader

from manyheads.spec.errors import UserError, optional

from .image_augment import Geometry
from .image_types import Files, Held, Labelled, Terms
from .randaugment import RandAugment
from .randomness import Indices, Order

CHUNK = 32  # samples that a worker decodes at a time: few enough that several workers share a batch
AHEAD = 4  # chunks that each worker decodes ahead


def worker_count() -> int:
    """How many worker processes this process starts: $MANYHEADS_WORKERS, or its share of all cores but one."""
    count = os.environ.get("MANYHEADS_WORKERS")
    if count is not None:
        if not count.isdigit():
            raise UserError(f"MANYHEADS_WORKERS is {count!r}; write a whole number of processes, 0 for none")
        return int(count)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(16, (cores - 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


class Stream:
    """Batches of labelled images, decoded ahead. `waited` counts the seconds that training waited for batches."""

    def __init__(self, train: Files, test: Files, terms: Terms, valid: Files | None = None) -> None:
        self.device, self.waited = terms.device, 0.0
        self.order = Order(len(train.labels), terms.seed, terms.batch)
        self.train = Decoder(train, terms)
        evaluated = {"test": test} | ({"valid": valid} if valid else {})
        self.splits = {name: Decoder(files, terms, held=True) for name, files in evaluated.items()}
        rand = terms.augment.rand
        self.rand = RandAugment(rand, terms.seed, terms.fill) if rand else None
        self.workers = worker_count()
        self._flow: Iterator[Labelled | str] = iter(())
        self._coming: Iterator[tuple[int, range]] = iter(())
        self._next: tuple[int, range] | None = None
        self._step: tuple[int, list[range]] = (-1, [])  # the step of the last call, and the rows asked for in it

    def batch(self, step: int, rows: range) -> Labelled:
        """The training samples of a step, cropped, mirrored and augmented."""
        if (step, rows) != self._next:
            self._expect(step, rows)
        if self._step[0] != step:
            self._step = (step, [])
        self._step[1].append(rows)
        self._next = next(self._coming)
        started = time.perf_counter()
        images, labels = self._gather(self._flow, len(rows))
        self.waited += time.perf_counter() - started
        return images if self.rand is None else self.rand(images, self.order.places(step, rows)), labels

    def held(self, parts: Sequence[Indices], split: Held = "test") -> Iterator[Labelled]:
        """Images of a split without augmentation: one batch for each list of samples in `parts`."""
        flow = self._load(self.splits[split], (chunk for part in parts for chunk in split_chunks(part, part, CHUNK)))
        for part in parts:
            yield self._gather(flow, len(part))

    def _expect(self, step: int, rows: range) -> None:
        """Start to fetch this call, and in every later step the rows that this step asked for so far."""
        seen = self._step[1] if self._step[0] == step else []
        pattern = [*seen, rows]
        self._coming = _calls(step, rows, pattern)
        next(self._coming)
        self._flow = iter(())  # ends the workers that fetched the old pattern before new ones start
        self._flow = self._load(self.train, _chunks(self.order, _calls(step, rows, pattern)))

    def _load(self, decoder: Decoder, chunks: Iterator[tuple[Indices, Indices]]) -> Iterator[Labelled | str]:
        """Chunks decoded by workers, in order."""
        return loaded(decoder, chunks, pinned=self.device.type == "cuda", workers=self.workers)

    def _gather(self, flow: Iterator[Labelled | str], count: int) -> Labelled:
        """The next `count` samples on the device."""
        images, labels = [], []
        while count > 0:
            chunk = next(flow)
            if isinstance(chunk, str):
                raise UserError(chunk)
            images.append(chunk[0].to(self.device, non_blocking=True))
            labels.append(chunk[1].to(self.device, non_blocking=True))
            count -= len(chunk[1])
        return torch.cat(images), torch.cat(labels)


def loaded(
    decoder: Decoder, chunks: Iterator[tuple[Indices, Indices]], *, pinned: bool, workers: int | None = None
) -> Iterator[Labelled | str]:
    """Chunks decoded by worker processes, in order; `worker_count` many unless `workers` says how many. The loader draws
    its seed from a generator of its own."""
    count = worker_count() if workers is None else workers
    loader: DataLoader[Any] = DataLoader(
        decoder,  # type: ignore[arg-type]
        batch_size=None,
        sampler=chunks,
        num_workers=count,
        collate_fn=_as_is,  # type: ignore[arg-type]
        pin_memory=pinned,
        generator=torch.Generator(),
        prefetch_factor=AHEAD if count else None,
        worker_init_fn=_stay,
    )
    return iter(loader)


# These two hold no reference to the stream: a cycle would keep its workers alive until Python collects garbage.
def _calls(step: int, rows: range, pattern: list[range]) -> Iterator[tuple[int, range]]:
    """This call, then the calls of all later steps, without end."""
    yield step, rows
    while True:
        step += 1
        yield from ((step, part) for part in pattern)


def _chunks(order: Order, calls: Iterator[tuple[int, range]]) -> Iterator[tuple[Indices, Indices]]:
    for call in calls:
        places = order.places(*call)
        yield from split_chunks(order.at(places), places, CHUNK)


def _stay(worker: int) -> None:
    """Let only the training process end this worker. A scheduler's SIGTERM and Ctrl-C reach every process of the group,
    but training still needs batches to finish its step before it saves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "sigwaitinfo"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=_end_when_told, args=(os.getppid(),), daemon=True).start()


def _end_when_told(parent: int) -> None:
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)


def _as_is(chunk: Labelled | str) -> Labelled | str:
    return chunk


Image = UInt8[Tensor, "channels height width"]


@dataclass(frozen=True)
class Decoder:
    """Decodes chunks of a split. Held-out images (`held`) are resized so that the shorter side is size / centre, and
    cropped in the middle.

    A chunk is (samples, places). For an unreadable file the message is returned, since an exception would arrive from
    the worker with its traceback."""

    files: Files
    terms: Terms
    held: bool = False

    def __getitem__(self, chunk: tuple[Indices, Indices]) -> Labelled | str:
        samples, places = chunk
        try:
            pairs = zip(samples.tolist(), places.tolist(), strict=True)
            images = torch.stack([self.image(sample, place) for sample, place in pairs])
        except UserError as error:
            return str(error)
        return images, torch.from_numpy(self.files.labels[samples])

    def image(self, sample: int, place: int) -> Image:
        """One image of size x size, cropped and mirrored as its place in the endless order decides."""
        vision = optional("torchvision.transforms.v2.functional", "torchvision", "reading image files")
        image = read_image(os.fsdecode(self.files.paths[sample]))
        if self.held:
            return self._middle(image, vision)
        terms, at = self.terms, np.array([place])
        geometry, size = Geometry(terms.augment, terms.seed), [terms.size, terms.size]
        if terms.augment.resized:
            top, left, height, width = geometry.cuts(at, *image.shape[-2:])[0].tolist()
            image = vision.resized_crop(image, top, left, height, width, size, antialias=True)
        else:
            top, left, *_ = geometry.cuts(at, *size)[0].tolist()
            image = vision.crop(self._middle(image, vision), top, left, *size)  # outside is black
        return vision.horizontal_flip(image) if geometry.flips(at)[0] else image

    def _middle(self, image: Image, vision: Any) -> Image:
        """The image resized so that its shorter side is size / centre, then cropped in the middle."""
        image = vision.resize(image, [round(self.terms.size / self.terms.centre)], antialias=True)
        middle: Image = vision.center_crop(image, [self.terms.size, self.terms.size])
        return middle


def read_image(path: str) -> Image:
    """The pixels of an image file, in three channels."""
    pillow = optional("PIL.Image", "pillow", "reading image files")
    try:
        with pillow.open(path) as file:
            return torch.from_numpy(np.array(file.convert("RGB"))).permute(2, 0, 1)
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError) as error:
        raise UserError(f"{path} is no image that can be read ({error}); replace the file or remove it") from None


def split_chunks(samples: Indices, places: Indices, size: int) -> Sequence[tuple[Indices, Indices]]:
    """A batch in chunks of at most `size` samples; a worker decodes one chunk at a time."""
    edges = range(0, len(samples), size)
    return [(samples[start : start + size], places[start : start + size]) for start in edges]
