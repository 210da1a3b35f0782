"""A folder of transformers with Python files of its own, which leave a trace where they are executed."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conditioning.others import make

EVIL = """
from pathlib import Path
Path({trace!r}).touch()
from transformers import BertConfig, BertModel, BertTokenizer
class EvilConfig(BertConfig):
    model_type = "{kind}"
class EvilModel(BertModel):
    config_class = EvilConfig
EvilTokenizer = BertTokenizer
"""


def evil(folder: Path, kind: str) -> Path:
    """A folder of transformers that brings Python files of its own. Returns the file that these make when executed."""
    make("transformers BERT")[0].save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    auto = {"AutoConfig": "evil.EvilConfig", "AutoModel": "evil.EvilModel"}
    (folder / "config.json").write_text(json.dumps(config | {"model_type": kind, "auto_map": auto}))
    auto = {"AutoTokenizer": ["evil.EvilTokenizer", None]}
    (folder / "tokenizer_config.json").write_text(json.dumps({"auto_map": auto, "tokenizer_class": "EvilTokenizer"}))
    (folder / "evil.py").write_text(EVIL.format(trace=str(folder / "ran"), kind=kind))
    return folder / "ran"
