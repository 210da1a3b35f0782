"""Every model type that is read goes through the door and back: each tensor of the folder is equal at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import manyheads as mh
from tests.parity import test_encoders
from tests.parity.harness import randomise

from .hf_types import ROWS

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
QUICK = ("bert", "roberta_model", "clip_image", "mistral")  # the others are slow, since transformers imports many files
ENCODERS = test_encoders.TEXTS | test_encoders.IMAGES


def sliced(names: Any) -> list[Any]:
    return [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in names]


def there_and_back(twin: Any, folder: Path) -> None:
    """Convert the folder of a model, export it as the library's own class, and compare all tensors."""
    kind = type(twin)
    twin.save_pretrained(folder / "hf")
    report = mh.convert(f"hf:{folder / 'hf'}", folder / "lean")
    assert report.parameters == sum(p.numel() for p in twin.parameters())
    assert not report.missing
    assert not report.left_out
    mh.export(str(folder / "lean"), folder / "back", stock=True)
    before, after = (load_file(folder / place / "model.safetensors") for place in ("hf", "back"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    again, info = kind.from_pretrained(folder / "back", output_loading_info=True)
    assert not info["missing_keys"]
    assert again.config.to_dict().keys() == twin.config.to_dict().keys()


@pytest.mark.filterwarnings("ignore")  # of transformers
@pytest.mark.parametrize("kind", sliced(kind for kind, row in ROWS.items() if not row.refused))
def test_a_type_with_its_usual_head(kind: str, tmp_path: Path) -> None:
    config = transformers.AutoConfig.for_model(kind, **ROWS[kind].config)
    there_and_back(randomise(getattr(transformers, ROWS[kind].auto).from_config(config)).eval(), tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sliced(ENCODERS))
def test_an_encoder_with_and_without_a_head(name: str, tmp_path: Path) -> None:
    kind, made, settings = ENCODERS[name]
    twin = getattr(transformers, made)(getattr(transformers, f"{kind}Config")(**settings))
    there_and_back(randomise(twin).eval(), tmp_path)
