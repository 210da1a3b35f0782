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
        "The `config.json` of a folder of transformers states its `model_type`. For each type below, the tests made a",
        "small model of transformers' own class, with random weights. A type is read exactly if three things hold: the",
        "[record](record.md) has the same number of parameters; the results in float64 are the same, with padding at",
        "either end and, for decoders, over texts longer than their windows; and the weights come back bit by bit when",
        "they are written for transformers again. How to convert a model is on the page [convert.md](convert.md).",
        "",
        f"{len(kinds)} types are read and {len(refused)} are refused. Measured with transformers {lines[0]['version']} by",
        "`tests/interop/test_hf_types.py`; written by `docs/make_model_types.py`. How closely outputs and gradients agree",
        "is on the page [parity.md](parity.md).",
        "",
        '"Also compared with" names further configurations of a type that were tested, such as biases or tied embeddings.',
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
