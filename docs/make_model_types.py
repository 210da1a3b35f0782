"""Writes docs/model_types.md: which model types of transformers are read exactly, and why others are refused.

Run `pytest tests/interop/test_hf_types.py -m "slow or not slow"`, then `python docs/make_model_types.py`."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> None:
    """A table of the types that are read, with the further configurations that were compared, and one of refusals."""
    lines = [json.loads(file.read_text()) for file in sorted((ROOT / "build" / "model_types").glob("*.json"))]
    assert lines, "run the tests first"
    read, refused = ([line for line in lines if bool(line["refusal"]) == no] for no in (False, True))
    kinds = sorted({line["type"] for line in read})
    text = [
        "# Model types of transformers",
        "",
        "A folder of transformers says in its config.json what `model_type` it is. For each type below, a small model of",
        "transformers' own class was made from its own configuration class. A type is read exactly if the record has the",
        "same number of parameters, if weights that are all random give the same results in float64, with padding at",
        "either end and, for decoders, over texts longer than their windows, and if the weights come back bit by bit.",
        "",
        f"{len(kinds)} types are read and {len(refused)} are refused. Measured with transformers {lines[0]['version']} by",
        "`tests/interop/test_hf_types.py`; written by `docs/make_model_types.py`. Outputs and gradients of decoders are in",
        "[parity.md](parity.md).",
        "",
        "## Read",
        "",
        "| type | family | also compared with |",
        "|---|---|---|",
    ]
    for kind in kinds:
        rows = [line for line in read if line["type"] == kind]
        text.append(f"| {kind} | {rows[0]['family']} | {', '.join(filter(None, (row['name'] for row in rows)))} |")
    text += ["", "## Refused", "", "| type | reason |", "|---|---|"]
    text += [f"| {line['type']} | {line['refusal'].partition(': ')[2] or line['refusal']} |" for line in refused]
    (ROOT / "docs" / "model_types.md").write_text("\n".join(text) + "\n")


if __name__ == "__main__":
    main()
