"""`manyheads data`: make a set of sequences that the long-range tasks are trained on, before they ask for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.spec.errors import UserError, nearest

KINDS = ("listops", "pathfinder", "text", "retrieval")


def data(
    kind: Annotated[str, typer.Argument(help="listops, pathfinder, text or retrieval.")],
    out: Annotated[Path | None, typer.Option(help="Folder. Default: $MANYHEADS_DATA or ~/.cache/manyheads.")] = None,
    train: Annotated[int | None, typer.Option(help="Training samples. Default: as published.")] = None,
    valid: Annotated[int | None, typer.Option(help="Validation samples.")] = None,
    test: Annotated[int | None, typer.Option(help="Test samples.")] = None,
    seed: Annotated[int, typer.Option(help="Of the set (data_seed of the task).")] = 0,
    settings: Annotated[list[str] | None, typer.Option("--set", help="Another setting: depth=4, contour=6.")] = None,
    workers: Annotated[int, typer.Option(help="Processes side by side.")] = 2,
    show: Annotated[int, typer.Option(help="Print the first samples.")] = 0,
    picture: Annotated[Path | None, typer.Option(help="Pathfinder: the first 96 on one sheet, as a PNG file.")] = None,
) -> None:
    """Make ListOps, Pathfinder, or texts of made-up words; tasks find the set by its settings. Interrupted, it goes
    on."""
    import numpy as np

    from manyheads.data.lra import generated
    from manyheads.data.places import data_root
    from manyheads.tasks.lra import ByteText, ListOps, Pathfinder, Retrieval

    if kind not in KINDS:
        raise UserError(f"{kind!r} is not made here{nearest(kind, KINDS)}; write one of {', '.join(KINDS)}")
    if picture is not None and kind != "pathfinder":
        raise UserError(f"--picture {picture}: {kind} has no pictures; write --show 3")
    task = dict(zip(KINDS, (ListOps(), Pathfinder(), ByteText(), Retrieval()), strict=True))[kind]
    assert task.made is not None
    setting = _setting(kind, task.made[1], settings or [])
    given = {"train": train, "valid": valid, "test": test}
    sizes = {name: getattr(task, name) if size is None else size for name, size in given.items()}
    root = data_root(out)
    with _progress(kind, sum(sizes.values())) as progress:
        found = generated.kept(root, kind, setting, sizes, seed, workers=workers, progress=progress)
    for name, split in found.items():
        labels = " ".join(f"{100 * part:.1f}" for part in np.bincount(split.labels) / len(split))
        print(f"{name:6} {len(split):>8,} samples  {split.lengths.mean():7,.0f} tokens on average  labels (%) {labels}")
    first = next(iter(found.values()))
    for sample in range(min(show, len(first))):
        print(f"{first.labels[sample]}  {_text(kind, first, sample)}")
    if picture is not None:
        _sheet(picture, first, setting.side)
    print(generated.place(root, kind, setting, sizes, seed)[0])


def _setting(kind: str, record: Any, settings: list[str]) -> Any:
    """The record of what is made, some of its fields changed."""
    names = [entry.name for entry in fields(record)]
    given = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or name not in names:
            raise UserError(
                f"--set {text}: {kind} has no such setting{nearest(name, names)}; write NAME=VALUE, with one "
                f"of {', '.join(names)}"
            )
        try:
            given[name] = json.loads(value)
        except ValueError:
            raise UserError(f"--set {text}: write a number") from None
    return replace(record, **given)


def _text(kind: str, found: Any, sample: int) -> str:
    from manyheads.data.lra import listops

    if kind == "pathfinder":
        return "(see --picture)"
    texts = [listops.text(ids) if kind == "listops" else bytes(ids).decode() for ids in found.one(sample)]
    return "  |  ".join(text if len(text) <= 160 else f"{text[:160]} ..." for text in texts)


def _sheet(file: Path, found: Any, side: int) -> None:
    import numpy as np

    from manyheads.data.lra.sheet import sheet

    some = np.arange(min(96, len(found)))
    pixels = found.rows(some, side * side)[0].reshape(-1, side, side)
    try:
        file.write_bytes(sheet(pixels, found.labels[some]))
    except OSError as error:
        raise UserError(f"--picture {file} cannot be written: {error.strerror}") from None


@contextmanager
def _progress(kind: str, total: int) -> Iterator[Any]:
    """A bar on the terminal, which appears when something has to be made."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(kind), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(kind, total=total)
        yield lambda done, _: bar.update(task, completed=done)
