"""Table 1's scores: the models of `table1`, pretrained on equal tokens, fine-tuned on GLUE.

    manyheads run table1_glue --scale small          after `manyheads run table1 --scale small`

What a fine-tuning run is depends on the weights it starts from, which nobody knows before they are trained. So the
record states none (`UNKNOWN`); when it is run, the digest of the pretrained model of the same seed takes their place
(`sweep.reuse`). There is no smoke scale: GLUE has no offline form. Five tasks at small, whose
training data is easily had, eight at paper scale; Crammed BERT's one setting for all. A difference below the standard
error of a task's held-out set (3.0 points for RTE, 0.4 for MNLI) says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from manyheads.paper.rows import BY_ID
from manyheads.spec.arch import Arch
from manyheads.spec.experiment import After, Arm, Comparison, Experiment, Setting
from manyheads.spec.parts import Classify, Masked

from .table1 import IDS, TABLE1

UNKNOWN = "0" * 64  # in place of the sha256 of weights
# task: classes, metric, name in Table 1, margin of no loss: about a standard error of its held-out set
# fmt: off
GLUE: dict[str, tuple[int, str, str, float]] = {
    "cola": (2, "mcc", "CoLA", 0.015), "sst2": (2, "accuracy", "SST-2", 0.01), "mrpc": (2, "f1", "MRPC", 0.02),
    "stsb": (1, "pearson", "STSB", 0.01), "rte": (2, "accuracy", "RTE", 0.03), "qqp": (2, "f1", "QQP", 0.005),
    "mnli": (3, "accuracy", "MNLI", 0.005), "qnli": (2, "accuracy", "QNLI", 0.005),
}
# fmt: on
AT_HAND = ("cola", "sst2", "mrpc", "stsb", "rte")
DESIGNS = ("original", "lean", "fixed", "depth_only")
# fmt: off
RECIPE: dict[str, Any] = {
    "batch": 16, "basis": {"kind": "epochs", "amount": 5}, "lr": 4e-5, "schedule": {"kind": "cosine", "warmup": 0.1},
    "betas": [0.9, 0.98], "eps": 1e-6, "weight_decay": 0.0, "clip": 0.0, "rates": {"dropout": 0.1, "attention": 0.1},
    "evaluate_every": 0.2, "checkpoint_every": 0.2,
}
# fmt: on


def classifier(arch: Arch, outputs: int) -> Arch:
    """The encoder with Crammed BERT's classifier: the first token, 1,024 units, tanh."""
    assert isinstance(arch.head, Masked)
    return replace(arch, head=Classify(outputs, "class", arch.head.norm, hidden=1024, act="tanh"))


def arms(scale: str, tasks: tuple[str, ...]) -> tuple[Arm, ...]:
    """Every design on every task."""
    pretrained = {arm.name: arm for arm in TABLE1.setting(scale).arms}
    return tuple(
        Arm(
            f"{name}_{task}",
            classifier(pretrained[name].arch, GLUE[task][0]),
            f"{GLUE[task][2]}: {pretrained[name].note}",
            {"task": task},
            start=name,
        )
        for task in tasks
        for name in DESIGNS
    )


def _difference(task: str) -> float:
    lean, original = (BY_ID[f"crammed_bert/{role}"].scores[GLUE[task][2]] for role in ("lean", "original"))
    return round((lean - original) / 100, 4)


TASK: dict[str, Any] = {"is": "Glue", "tokenizer": "bert_uncased", "vocab": IDS, "tokens": 128, "weights": UNKNOWN}

TABLE1_GLUE = Experiment(
    name="table1_glue",
    title="Crammed BERT on GLUE",
    question="Does Crammed BERT with 10 layers of 24 heads match 16 layers of 12 on GLUE?",
    settings={
        "small": Setting(arms("small", AT_HAND), (0, 1, 2), TASK, {"epochs": RECIPE}),
        "paper": Setting(arms("paper", tuple(GLUE)), (0, 1, 2), TASK, {"epochs": RECIPE}),
    },
    comparisons=tuple(
        Comparison(
            f"lean_{task}",
            f"{against}_{task}",
            "no_loss" if against == "original" else "more",
            GLUE[task][3] if against == "original" else 0.0,
            claim,
            GLUE[task][1],
            _difference(task) if against == "original" else None,
        )
        for task in AT_HAND
        for against, claim in (("original", "L12"), ("depth_only", "M1"))
    ),
    printed={
        f"{role}_{task}": BY_ID[f"crammed_bert/{role}"].scores[GLUE[task][2]] / 100
        for task in GLUE
        for role in ("original", "lean")
    },
    after=After(TABLE1.name, "tokens"),
)
