"""Small GLUE folders in the official formats, with labels that a small model can learn."""

from __future__ import annotations

import random
from pathlib import Path

from manyheads.spec.datasets import GLUE_SETS, GlueSet

# fmt: off
HEADERS = {
    "cola": (), "sst2": ("sentence", "label"), "mrpc": ("Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"),
    "stsb": ("index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1", "sentence2", "score"),
    "qqp": ("id", "qid1", "qid2", "question1", "question2", "is_duplicate"),
    "mnli": ("index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse", "sentence1_parse",
             "sentence2_parse", "sentence1", "sentence2", "label1", "gold_label"),
    "qnli": ("index", "question", "sentence", "label"), "rte": ("index", "sentence1", "sentence2", "label"),
}
# fmt: on
WORDS = ("the", "cat", "dog", "park", "ball", "tree", "house", "little", "big", "red", "blue", "and", "went", "to")
SIGNS = ("happy", "sad", "funny")


def write(root: Path, task: GlueSet, train: int = 200, held: int = 60) -> Path:
    """A folder of `task` below `root`/glue; the label is told by a word of the last sentence."""
    folder = root / "glue" / task.folder
    folder.mkdir(parents=True)
    for name in ("train.tsv", *task.held):
        dice, count = random.Random(f"{task.name} {name}"), train if name == "train.tsv" else held
        header = HEADERS[task.name]
        lines = ["\t".join(header)] if header else []
        lines += ["\t".join(_cells(task, number, dice)) for number in range(count)]
        mark = "\ufeff" if task.name == "mrpc" else ""  # its official files begin with one
        (folder / name).write_text(mark + "\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _cells(task: GlueSet, number: int, dice: random.Random) -> list[str]:
    a, b = (" ".join(dice.choices(WORDS, k=dice.randint(3, 8))) for _ in range(2))
    kind = dice.randrange(task.outputs if task.classes else 3)
    told = f'{dice.choice(WORDS)} "{SIGNS[kind]} {b}'  # a lone quotation mark is text
    label = task.classes[kind] if task.classes else f"{(0.5, 2.5, 4.5)[kind] + dice.uniform(-0.3, 0.3):.3f}"
    if task.name == "cola":
        return ["gj04", label, "" if label == "1" else "*", told]
    values = {task.first: a if task.second else told, str(task.second): told, task.label: label}
    return [values.get(column, str(number)) for column in HEADERS[task.name]]


def write_all(root: Path, **how: int) -> None:
    """All eight."""
    for task in GLUE_SETS.values():
        write(root, task, **how)
