"""`manyheads data`: make a generated set of the long-range tasks before a run needs it, or download CIFAR-10."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyheads.spec.errors import UserError, nearest
from manyheads.spec.field_checks import between
from manyheads.spec.json_text import parse

if TYPE_CHECKING:
    from manyheads.spec.task import Task

KINDS = ("listops", "pathfinder", "text", "retrieval")
CIFAR = "cifar10"
PICTURES = 96  # on the sheet that --picture writes
LARGEST_SET = 2**31 - 1  # samples of a split


def data(
    kind: Annotated[str, typer.Argument(help="cifar10; or listops, pathfinder, text or retrieval.")],
    out: Annotated[
        Path | None, typer.Option(help="Data folder. Default: $MANYHEADS_DATA or ~/.cache/manyheads.")
    ] = None,
    train: Annotated[int | None, typer.Option(help="Number of training samples. Default: as published.")] = None,
    valid: Annotated[int | None, typer.Option(help="Number of validation samples.")] = None,
    test: Annotated[int | None, typer.Option(help="Number of test samples.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the set (data_seed of the task).")] = 0,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Change a setting: depth=4, contour=6.")] = None,
    workers: Annotated[int, typer.Option(help="Number of parallel processes.")] = 2,
    show: Annotated[int, typer.Option(help="Print this many samples.")] = 0,
    source: Annotated[
        str | None, typer.Option("--from", help="CIFAR-10: another address, or a folder, with cifar-10-binary.tar.gz.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help=f"Pathfinder: write the first {PICTURES} pictures to a PNG file.")
    ] = None,
) -> None:
    """Make a set of ListOps, Pathfinder or made-up texts, or download the official CIFAR-10 (170 MB). Tasks find a set by
    its settings. Run the same command again to continue an interrupted set."""
    from manyheads.data.local_data import data_root

    if kind == CIFAR:
        if settings or picture or show or {train, valid, test} != {None}:
            raise UserError("CIFAR-10 is downloaded as it is published; write no option but --out and --from")
        print(fetch_cifar(data_root(out), source))
        return
    if source is not None:
        raise UserError(f"--from {source}: {kind} is generated here; leave it out")
    import numpy as np

    from manyheads.data.lra.generated_sets import generated_set, set_folder
    from manyheads.spec.long_range import ByteText, ListOps, Pathfinder, Retrieval

    if kind not in KINDS:
        raise UserError(
            f"{kind!r} is no set{nearest(kind, (CIFAR, *KINDS))}; write one of {', '.join((CIFAR, *KINDS))}"
        )
    if picture is not None and kind != "pathfinder":
        raise UserError(f"--picture {picture}: {kind} has no pictures; write --show 3")
    task = dict(zip(KINDS, (ListOps(), Pathfinder(), ByteText(), Retrieval()), strict=True))[kind]
    assert task.made is not None
    setting = _setting(kind, task.made[1], settings or [])
    counts = {"train": train, "valid": valid, "test": test}
    sizes = {name: getattr(task, name) if size is None else size for name, size in counts.items()}
    for name, value in {"show": show, **sizes}.items():
        between(f"--{name}", value, 0, LARGEST_SET, whole=True)
    between("--seed", seed, 0, 2**63 - 1, whole=True)
    if not any(sizes.values()):
        raise UserError("the set has no samples; write --train with a number of at least 1")
    root = data_root(out)
    with _progress(kind, sum(sizes.values())) as progress:
        splits = generated_set(root, kind, setting, sizes, seed, workers=workers, progress=progress)
    for name, split in splits.items():
        labels = " ".join(f"{100 * part:.1f}" for part in np.bincount(split.labels) / len(split))
        print(f"{name:6} {len(split):>8,} samples  {split.lengths.mean():7,.0f} tokens on average  labels (%) {labels}")
    first = next(iter(splits.values()))
    for sample in range(min(show, len(first))):
        print(f"{first.labels[sample]}  {_text(kind, first, sample)}")
    if picture is not None:
        from manyheads.data.lra.pathfinder import save_sheet

        some = np.arange(min(PICTURES, len(first)))
        pixels = first.rows(some, setting.side**2)[0].reshape(-1, setting.side, setting.side)
        save_sheet(picture, pixels, first.labels[some])
    print(set_folder(root, kind, setting, sizes, seed)[0])


def fetch(tasks: Iterable[Task | None], root: Path | None) -> None:
    """Download what these tasks read and can be downloaded, where it is missing."""
    from manyheads.data.local_data import data_root

    if any(getattr(task, "data", None) == CIFAR for task in tasks):
        fetch_cifar(data_root(root))


def fetch_cifar(root: Path, source: str | None = None) -> Path:
    """CIFAR-10's folder below `root`, downloaded where it is not there."""
    from manyheads.data.cifar_archive import SIZE, download_cifar
    from manyheads.data.image_readers import find_cifar

    with suppress(UserError):
        return find_cifar(root)
    with _progress("CIFAR-10", SIZE) as progress:
        return download_cifar(root, source, progress)


def _setting(kind: str, default: Any, settings: list[str]) -> Any:
    """The settings of the set, with the fields changed that --set names."""
    names = [field.name for field in fields(default)]
    values = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or name not in names:
            raise UserError(
                f"--set {text}: {kind} has no such setting{nearest(name, names)}; write NAME=VALUE, with one "
                f"of {', '.join(names)}"
            )
        try:
            values[name] = parse(value)
        except ValueError:
            raise UserError(f"--set {text}: write a number") from None
    return replace(default, **values)


def _text(kind: str, split: Any, sample: int) -> str:
    from manyheads.data.lra import listops

    if kind == "pathfinder":
        return "(see --picture)"
    texts = [listops.text(ids) if kind == "listops" else bytes(ids).decode() for ids in split.one(sample)]
    return "  |  ".join(text if len(text) <= 160 else f"{text[:160]} ..." for text in texts)


@contextmanager
def _progress(kind: str, total: int) -> Iterator[Any]:
    """A progress bar on the terminal, which appears once something has to be made."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(kind), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(kind, total=total)
        yield lambda done, _: bar.update(task, completed=done)
