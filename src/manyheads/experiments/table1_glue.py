"""Table 1's scores: the models of `table1`, pretrained on equal tokens, fine-tuned on GLUE.

    runs = prepare(root, "small")          after `manyheads run table1 --scale small`
    manyheads run table1_glue --scale small

What a fine-tuning run is depends on the weights it starts from, which nobody knows before they are trained. So the
record states none (`UNKNOWN`), and `prepare` puts in the digest of the pretrained model of the same arm and seed, makes
the run folder and gives it these weights. There is no smoke scale: GLUE has no offline form. Five tasks at small, whose
training data is easily had, eight at paper scale; Crammed BERT's one setting for all. A difference below the standard
error of a task's held-out set (3.0 points for RTE, 0.4 for MNLI) says nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from manyheads.paper.rows import BY_ID
from manyheads.runs import Run, RunSpec
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.experiment import Arm, Comparison, Experiment, Setting, folder, specs
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
)


def prepare(
    root: Path, scale: str, pretraining: Experiment = TABLE1, tuning: Experiment = TABLE1_GLUE
) -> list[RunSpec]:
    """The fine-tuning runs of a scale with the weights that `pretraining` came to below `root`, each folder ready to be
    trained. One whose pretraining is not finished is refused by name."""
    from manyheads.train.start import begin, weights_digest

    pretrained = {
        (spec.label["arm"], spec.seed): folder(root, spec)
        for spec in specs(pretraining, scale)
        if spec.label["basis"] == "tokens"
    }
    out = []
    for spec in specs(tuning, scale):
        source = pretrained[spec.label["arm"].removesuffix(f"_{spec.task['task']}"), spec.seed]
        if not (source / "spec.json").is_file() or Run.open(source).result is None:
            raise UserError(
                f"{source} is not finished, and {spec.label['arm']} starts from its weights; write "
                f"`{pretraining.command(scale)}` first"
            )
        known = replace(spec, task={**spec.task, "weights": weights_digest(source / "model")})
        begin(Run.create(folder(root, known), known), source / "model")
        out.append(known)
    return out
