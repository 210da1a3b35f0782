"""Writes docs/timm.md: which of timm's names become records, and which promises of timm's tests our models keep.

Run `pytest tests/interop/test_timm_names.py tests/interop/test_timm_checks.py -m "slow or not slow"`, then
`python docs/make_timm.py`."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LABELS = {
    "vision_transformer": "ViT",
    "deit": "DeiT",
    "xcit": "XCiT",
    "tnt": "TNT",
    "volo": "VOLO",
    "davit": "DaViT",
    "vision_transformer_hybrid": "ViT behind a convolutional network",
    "vision_transformer_relpos": "ViT with relative positions",
    "vision_transformer_sam": "ViT of Segment Anything",
}


def main() -> None:
    """The use of both doors, the names, the reasons, the checks."""
    names, checks = lines_of("timm-names"), lines_of("interop-timm")
    assert names, "run the tests first"
    assert checks, "run the tests first"
    page = [*INTRODUCTION, "", *table_of_names(names), "", *table_of_reasons(names), "", *table_of_checks(checks), ""]
    (ROOT / "docs" / "timm.md").write_text("\n".join([*page, *DIFFERENCES]) + "\n")


def lines_of(folder: str) -> list[dict[str, Any]]:
    """What the tests kept."""
    return [json.loads(file.read_text()) for file in sorted((ROOT / "build" / folder).glob("*.json"))]


def table_of_names(rows: list[dict[str, Any]]) -> list[str]:
    """One row for each file of timm."""
    exact = [row for row in rows if not row["refusal"]]
    weights, usable = sum(row["tags"] for row in rows), sum(row.get("tags_read", row["tags"]) for row in exact)
    lines = [
        "## timm's names",
        "",
        f"timm has {len(rows)} model names in the files below. {len(exact)} are read exactly and "
        f"{len(rows) - len(exact)} are refused. With the tags of trained weights there are {weights} names, such as "
        f"`vit_base_patch16_224.augreg_in21k`, and {usable} of them are read.",
        "",
        "Read exactly means: the record has as many parameters as timm's model, each of timm's tensors has its place in",
        "ours and the other way round, and a small model of the same form with all tensors random gives the same outputs",
        "in float64. Two kinds of models have fewer parameters here than in timm. In the parallel form",
        "(`vit_small_patch16_18x2_224`), the norms and layer scales of a layer's branches are moved into the matrices",
        "beside them. A register (a learned extra token) that has a position, as in `vit_so150m_patch16_reg4_gap_256`, is",
        "one vector here: the sum of both.",
        "",
        "| timm's file | names | exact | refused |",
        "|---|---|---|---|",
    ]
    for file, label in LABELS.items():
        own = [row for row in rows if row["file"] == file]
        good = sum(not row["refusal"] for row in own)
        lines.append(f"| {label} (`{file}`) | {len(own)} | {good} | {len(own) - good} |")
    return lines


def table_of_reasons(rows: list[dict[str, Any]]) -> list[str]:
    """One row for each reason, with how many names it refuses, the most frequent first."""
    refused: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["refusal"]:
            refused[row["refusal"]].append(row["name"])
    lines = ["| why refused | names | such as |", "|---|---|---|"]
    for reason, names in sorted(refused.items(), key=lambda item: (-len(item[1]), item[0])):
        lines.append(f"| {short(reason)} | {len(names)} | {', '.join(f'`{name}`' for name in names[:3])} |")
    return lines


def short(reason: str) -> str:
    """The part that is named, without what all sentences share."""
    for front, behind in (
        ("this timm model has ", ", which manyheads does not build"),
        ("it is ", ", which manyheads does not build"),
        ("embed: ", ""),
    ):
        if reason.startswith(front):
            reason = reason.removeprefix(front).split(behind)[0] if behind else reason.removeprefix(front)
    return reason


def table_of_checks(rows: list[dict[str, Any]]) -> list[str]:
    """One row for each check, one column for each family."""
    families = sorted({row["family"] for row in rows})
    promises = {row["check"]: row["promise"] for row in rows}
    results = {(row["check"], row["family"]): row["refusal"] for row in rows}
    reasons = list(dict.fromkeys(filter(None, results.values())))
    passed = sum(not refusal for refusal in results.values())
    lines = [
        "## The promises of timm's tests",
        "",
        "timm tests every model with one suite, which its packages do not contain. The checks below are written anew from",
        "what that suite asks and from what timm's tools call. They are in `tests/interop/timm_checks.py` and",
        "`tests/interop/timm_feature_checks.py`, and run on a small model of each family. `yes` is a check that passes. A",
        "number is a check that is refused; the sentence with this number below the table is the message.",
        "",
        f"{passed} checks pass and {len(results) - passed} are refused; none fails.",
        "",
        f"| check | {' | '.join(families)} |",
        "|---" * (1 + len(families)) + "|",
    ]
    for check, promise in promises.items():
        cells = [_cell(results.get((check, family)), reasons) for family in families]
        lines.append(f"| {promise.rstrip('.')} | {' | '.join(cells)} |")
    return [*lines, "", "Refusals:", "", *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))]


def _cell(refusal: str | None, reasons: list[str]) -> str:
    if refusal is None:
        return ""
    return str(reasons.index(refusal) + 1) if refusal else "yes"


INTRODUCTION = [
    "# timm's models here, and our models in timm",
    "",
    "`timm:NAME` stands for the [record](record.md) of a timm model wherever a command takes a model, such as",
    "`manyheads plan timm:vit_base_patch16_224`. After `import manyheads.interop.timm`, `timm.create_model` builds our",
    "image models, and timm's tools work with them:",
    "",
    "```python",
    "import timm, manyheads.interop.timm",
    "",
    'model = timm.create_model("manyheads_vit_b", depth=7, heads=16, mlp_dim=1536)',
    "last, maps = model.forward_intermediates(batch, indices=3)  # maps: the features after each of the last three blocks",
    "",
    'backbone = timm.create_model("manyheads", arch="lean.json", features_only=True, out_indices=(2, 4, 6))',
    "backbone.feature_info.channels()",
    "```",
    "",
    "How to convert timm's trained weights, and how to write a model back for timm, is on the page",
    "[convert.md](convert.md). The tables below are written by `docs/make_timm.py` from what the tests found.",
]
DIFFERENCES = [
    "## What differs from timm's own models",
    "",
    "- DaViT returns tokens (batch x tokens x width) from `forward_features`, as the other families do; timm's DaViT",
    "  returns feature maps. `forward_intermediates` gives either form for all families.",
    "- The record states the pooling. `global_pool` is accepted where it states the same pooling. With",
    '  `num_classes=0` it may also be `""`, and the model returns all tokens.',
    "- A distilled DeiT in training returns the mean of its two classifiers. After `set_distilled_training()` it returns",
    "  both in one tensor.",
    "- Images are square and of one size, which `img_size` or `set_input_size` changes.",
    "- `prune_intermediate_layers` leaves `model.arch` as it was: the record of the whole model.",
]


if __name__ == "__main__":
    main()
