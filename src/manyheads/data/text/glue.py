"""GLUE (1804.07461) from its standard folders: CoLA, SST-2, MRPC, STS-B, QQP, MNLI, QNLI, RTE, each with train.tsv and
dev.tsv. Tab-separated, never quoted; what a file lacks is named with its line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from manyheads.data.places import first_found
from manyheads.spec.datasets import GlueSet
from manyheads.spec.errors import UserError

SHORT = 0.01  # share of lines that may be too short: QQP's official file has some


@dataclass(frozen=True)
class Examples:
    """Sentences and labels of one file. A single sentence has an empty second one; a label is a class number, or a
    score. `short` lines had too few columns and were left out."""

    first: list[str]
    second: list[str]
    labels: np.ndarray
    short: int = 0


def folder(task: GlueSet, data: str, root: Path) -> Path:
    """Where the files of a task lie."""
    return first_found(root, (f"{data}/{task.folder}",), f"GLUE's {task.folder}", "https://gluebenchmark.com/tasks")


def read(task: GlueSet, path: Path) -> Examples:
    """The examples of one file."""
    if not path.is_file():
        raise UserError(
            f"{path} is missing; {task.folder} has train.tsv and {' and '.join(task.held)}: unpack it again"
        )
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error.reason}); take the official file") from None
    names = list(task.header) or lines[0].rstrip("\r").split("\t")
    wanted = [task.first, *([task.second] if task.second else []), task.label]
    if missing := [name for name in wanted if name not in names]:
        raise UserError(
            f"{path} has no column {' and no column '.join(missing)}; it has {', '.join(names)}. The official "
            "file has them; test.tsv has no labels"
        )
    columns = [names.index(name) for name in wanted]
    first, second, labels, short = [], [], [], 0
    for number, line in enumerate(lines[0 if task.header else 1 :], 1 if task.header else 2):
        cells = line.rstrip("\r").split("\t")
        if not line.strip():
            continue
        if len(cells) <= max(columns):
            short += 1
            continue
        label = cells[columns[-1]]
        if task.name == "mnli" and label == "-":  # its annotators did not agree
            continue
        first.append(cells[columns[0]])
        second.append(cells[columns[1]] if task.second else "")
        labels.append(_label(task, label, path, number))
    if not labels or short > SHORT * (len(labels) + short):
        raise UserError(
            f"{path} has {len(labels)} whole lines and {short} with fewer than {max(columns) + 1} columns; "
            "take the official file: columns are separated by tabs"
        )
    return Examples(first, second, np.array(labels, dtype=np.int64 if task.classes else np.float64), short)


def _label(task: GlueSet, label: str, path: Path, number: int) -> float:
    if task.classes:
        if label not in task.classes:
            raise UserError(
                f"line {number} of {path} has the label {label[:40]!r}; {task.folder} has {', '.join(task.classes)}"
            )
        return task.classes.index(label)
    try:
        score = float(label)
    except ValueError:
        score = -1.0
    if not 0 <= score <= 5:
        raise UserError(f"line {number} of {path} has the score {label[:40]!r}; {task.folder} has numbers from 0 to 5")
    return score
