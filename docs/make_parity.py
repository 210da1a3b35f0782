"""Writes docs/parity.md from what the parity tests measured: `pytest tests/parity`, then `python
docs/make_parity.py`."""

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
        "Each model at its original head count against its twin, in float64 on a CPU: every tensor of the twin is",
        "randomised and loaded here, then every tensor of ours is randomised and loaded there. Differences are the largest",
        "over both directions, relative to the largest magnitude (at least 1); the tests demand 1e-9. Twins are small",
        "instances; their parameters are counted from the record.",
        "",
        f"Measured with torch {rows[0]['torch']}; written by `docs/make_parity.py`.",
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
