"""Writes docs/parity.md from the differences that the parity tests measured.

Run `pytest tests/parity -m 'slow or not slow'`, then `python docs/make_parity.py`."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """One row per twin, largest differences over both directions."""
    rows = [json.loads(file.read_text()) for file in sorted((ROOT / "build" / "parity").glob("*.json"))]
    assert rows, "run pytest tests/parity first"
    lines = [
        "# Model parity",
        "",
        "A twin is another library's implementation of a model. Each of our models is compared with its twin at the",
        "original number of heads, in float64 on a CPU: all tensors of the twin are randomised and loaded into ours,",
        "then all of our tensors are randomised and loaded into the twin. The table has the largest difference in",
        "either direction, relative to the largest magnitude (at least 1); the tests require 1e-9. The models are",
        "small, and their parameters are counted from the record.",
        "",
        f"Measured with torch {rows[0]['torch']} by `pytest tests/parity -m 'slow or not slow'`; written by",
        "`docs/make_parity.py`.",
        "",
        "| model | twin | output | gradient | parameters |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {r['model']} | {r['twin']} | {r['output']:.1e} | {r['gradient']:.1e} | {r['params']:,} |" for r in rows
    ]
    (ROOT / "docs" / "parity.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
