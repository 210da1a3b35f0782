"""A dataset of image files, decoded by worker processes ahead of the training step.

Order and augmentation are those of the places, whichever worker decodes them. The loader learns from the calls which
rows this process asks for in a step (a rank's block, in as many parts as gradients are accumulated) and fetches the
same rows of the next steps ahead; a call it did not expect starts it anew. `waited` says how long training stood
still."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader

from manyheads.spec.errors import UserError

from .decode import Decoder, split_chunks
from .order import Order
from .randaugment import RandAugment
from .shapes import Indices, Labelled, Terms
from .stored import Files

CHUNK = 32  # samples a worker decodes at a time: small enough that a batch comes from several workers at once
AHEAD = 4  # chunks in waiting for each worker


def worker_count() -> int:
    """Worker processes for this process: $MANYHEADS_WORKERS, or the cores of the machine but one, shared by its
    ranks."""
    given = os.environ.get("MANYHEADS_WORKERS")
    if given is not None:
        if not given.isdigit():
            raise UserError(f"MANYHEADS_WORKERS is {given!r}; write a whole number of processes, 0 for none")
        return int(given)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(16, (cores - 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))))


class Stream:
    """Batches of bytes with labels, decoded ahead. `waited`: seconds that batches were asked for and not there yet."""

    def __init__(self, train: Files, test: Files, terms: Terms) -> None:
        self.device, self.waited = terms.device, 0.0
        self.order = Order(len(train.labels), terms.seed, terms.batch)
        self.train, self.test = Decoder(train, terms), Decoder(test, terms, held=True)
        rand = terms.augment.rand
        self.rand = RandAugment(rand, terms.seed, terms.fill) if rand else None
        self.workers = worker_count()
        self._flow: Iterator[Labelled | str] = iter(())
        self._coming: Iterator[tuple[int, range]] = iter(())
        self._next: tuple[int, range] | None = None
        self._step: tuple[int, list[range]] = (-1, [])  # the step of the last call, and the rows asked for in it

    def batch(self, step: int, rows: range) -> Labelled:
        """Training samples of a step, cut, mirrored and changed."""
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

    def held(self, parts: Sequence[Indices]) -> Iterator[Labelled]:
        """Held-out images, for each part the samples it lists."""
        flow = self._load(self.test, (chunk for part in parts for chunk in split_chunks(part, part, CHUNK)))
        for part in parts:
            yield self._gather(flow, len(part))

    def _expect(self, step: int, rows: range) -> None:
        """Start to fetch this call, and then in every later step the rows this step has asked for so far."""
        seen = self._step[1] if self._step[0] == step else []
        pattern = [*seen, rows]
        self._coming = _calls(step, rows, pattern)
        next(self._coming)
        self._flow = iter(())  # ends the workers of the last guess before others start
        self._flow = self._load(self.train, _chunks(self.order, _calls(step, rows, pattern)))

    def _load(self, decoder: Decoder, chunks: Iterator[tuple[Indices, Indices]]) -> Iterator[Labelled | str]:
        """Chunks decoded by workers, in order. The loader's own seed comes from a generator that nobody else draws
        from."""
        loader: DataLoader[Any] = DataLoader(
            decoder,  # type: ignore[arg-type]
            batch_size=None,
            sampler=chunks,
            num_workers=self.workers,
            collate_fn=_as_is,  # type: ignore[arg-type]
            pin_memory=self.device.type == "cuda",
            generator=torch.Generator(),
            prefetch_factor=AHEAD if self.workers else None,
            worker_init_fn=_stay,
        )
        return iter(loader)

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


# These two hold no reference to the stream: were they to, its workers would live on until Python looks for cycles.
def _calls(step: int, rows: range, pattern: list[range]) -> Iterator[tuple[int, range]]:
    """This call, then those of the steps after it, without end."""
    yield step, rows
    while True:
        step += 1
        yield from ((step, part) for part in pattern)


def _chunks(order: Order, calls: Iterator[tuple[int, range]]) -> Iterator[tuple[Indices, Indices]]:
    for call in calls:
        places = order.places(*call)
        yield from split_chunks(order.at(places), places, CHUNK)


def _stay(worker: int) -> None:
    """Let a worker be ended by the process that trains alone. A scheduler's SIGTERM and Ctrl-C reach every process of
    the group, and training wants to finish its step and save: it needs its batch."""
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
