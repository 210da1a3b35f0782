"""Writes docs/interop.md: which of the promises that transformers' own tests check are kept by which family.

Run `pytest tests/interop/test_hf_checks.py -m "slow or not slow"`, then `python docs/make_interop.py`."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """One row for each check, one column for each family, and the reasons of the refusals below."""
    rows = [json.loads(file.read_text()) for file in sorted((ROOT / "build" / "interop").glob("*.json"))]
    assert rows, "run the tests first"
    families = sorted({row["family"] for row in rows})
    promises = {row["check"]: row["promise"] for row in rows}
    results = {(row["check"], row["family"]): row["refusal"] for row in rows}
    reasons = list(dict.fromkeys(filter(None, results.values())))
    passed = sum(not refusal for refusal in results.values())
    lines = [
        "# Our models in transformers",
        "",
        "transformers tests its models with a suite that each of them shares. Its packages do not contain that suite; the",
        "checks below are written anew from what it asks, in `tests/interop/hf_checks.py` and",
        "`tests/interop/hf_generation_checks.py`, and run on a small model of each family. `yes` is a check that passes, a",
        "number is a refusal with the sentence below, and an empty cell a check that does not apply, such as generation",
        "for a classifier.",
        "",
        f"{passed} checks pass and {len(results) - passed} are refused; none fails. Written by `docs/make_interop.py`.",
        "",
        f"| check | {' | '.join(families)} |",
        "|---" * (1 + len(families)) + "|",
    ]
    for check, promise in promises.items():
        cells = [_cell(results.get((check, family)), reasons) for family in families]
        lines.append(f"| {promise.rstrip('.')} | {' | '.join(cells)} |")
    lines += ["", "## Refusals", ""]
    lines += [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    lines += ["", "## What differs from transformers' own models", ""]
    lines += DIFFERENCES
    (ROOT / "docs" / "interop.md").write_text("\n".join(lines) + "\n")


def _cell(refusal: str | None, reasons: list[str]) -> str:
    if refusal is None:
        return ""
    return str(reasons.index(refusal) + 1) if refusal else "yes"


DIFFERENCES = [
    "- The first real token of a row has position 0, so that padding in front changes nothing even where `position_ids`",
    "  are not given. transformers counts the padding then.",
    "- Where `position_ids` begin anew and there is no `attention_mask`, a causal model does not let one document see",
    "  another. transformers does the same, but not in a call that makes a cache, which in evaluation is its default.",
    "- Encoders take such a division as a mask of four dimensions, as transformers' encoders do.",
    "- Positions beyond the model's are refused. transformers' Llama computes any.",
    "- A boolean mask of four dimensions means the same to `sdpa` and `eager`. transformers' `eager` adds True as 1.",
    "- Nyströmformer's first position is 0; transformers' is 2, since its table has two rows that are never read.",
    "- Without `use_cache=True` a forward makes no cache.",
]


if __name__ == "__main__":
    main()
