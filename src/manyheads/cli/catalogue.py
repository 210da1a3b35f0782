"""`manyheads tasks`, `recipes`, `datasets`, `experiments`: what can be named on the command line, a line on each."""

from __future__ import annotations

import inspect
import json
import re
from typing import Annotated, Any

import typer

from manyheads.interop.train_task import written

from .tables import Column, show

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
EMBEDDED = ("fashion_mnist", "tinystories")


def tasks(as_json: Json = False) -> None:
    """List the tasks that `manyheads train --task` takes."""
    from manyheads.spec.measurements import Measurement
    from manyheads.spec.task_kinds import TASKS

    _print(
        [
            {"name": written(name), "trains": not issubclass(kind, Measurement), "note": _first_sentence(kind)}
            for name, kind in TASKS.items()
        ],
        as_json,
    )


def recipes(as_json: Json = False) -> None:
    """List the recipes that `manyheads train --recipe` takes, each with the task that belongs to it."""
    from manyheads.experiments.recipes import NAMED

    rows = []
    for name, (make, task) in NAMED.items():
        recipe = make()
        budget = f"{recipe.basis.amount:,.6g} {recipe.basis.kind}"
        note = f"{budget}, batch {recipe.batch:,}, learning rate {recipe.lr:g}, {recipe.schedule.kind}"
        rows.append({"name": name, "task": written(type(task()).__name__), "note": note})
    _print(rows, as_json)


def datasets(as_json: Json = False) -> None:
    """List the datasets that `manyheads train --data` takes. Those that are not embedded are read below --data-root."""
    from manyheads.spec.datasets import CORPUS_VOCAB, FOLDER, IMAGE_SETS, SHARDS

    rows = []
    for name, facts in IMAGE_SETS.items():
        colours = "grey" if facts.channels == 1 else "colour"
        rows.append(_dataset(name, "images", f"{facts.classes} classes, {colours} images of {facts.size} px"))
    rows.append(
        _dataset(f"{FOLDER}NAME", "images", "your own images: the folder NAME with train/CLASS/* and val/CLASS/*")
    )
    for name, count in CORPUS_VOCAB.items():
        rows.append(_dataset(name, "language_model, masked_language", f"5,000 short stories, {count:,} token ids"))
    rows.append(
        _dataset(
            f"{SHARDS}NAME", "language_model, masked_language", "your own text: the folder NAME of `manyheads tokenize`"
        )
    )
    _print(rows, as_json)


def _dataset(name: str, task: str, note: str) -> dict[str, Any]:
    return {"name": name, "task": task, "note": note + (" (embedded)" if name in EMBEDDED else "")}


def experiments(as_json: Json = False) -> None:
    """List the experiments that `manyheads run` takes, and whose arms `manyheads train EXPERIMENT:ARM` takes."""
    from manyheads.experiments.registry import EXPERIMENTS

    rows = []
    for name, experiment in EXPERIMENTS.items():
        first = next(iter(experiment.settings.values()))
        arms = [arm.name for arm in first.arms]
        rows.append({"name": name, "scales": list(experiment.settings), "arms": arms, "note": experiment.title})
    _print(rows, as_json)


def _print(rows: list[dict[str, Any]], as_json: bool) -> None:
    from rich.console import Console

    if as_json:
        print(json.dumps(rows))
        return
    middle = [name for name in rows[0] if name in ("task", "scales")]
    columns = [Column("name"), *(Column(name, leave=1) for name in middle), Column("", note=True)]
    cells = []
    for row in rows:
        texts = [row[name] if isinstance(row[name], str) else ", ".join(row[name]) for name in middle]
        cells.append([row["name"], *texts, row["note"]])
    show(Console(), columns, cells)


def _first_sentence(kind: type) -> str:
    text = " ".join((inspect.getdoc(kind) or "").split())
    return re.split(r"(?<=[a-z)`])[.:] | \(`", text)[0].rstrip(".")
