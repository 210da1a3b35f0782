"""Folders that load without an import of manyheads: stock ones, and ours by the lines that they carry."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from manyheads.arch import families as f
from manyheads.arch.redesign import redesign
from manyheads.models.build import build
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Classify, Rope, RopeLlama3
from tests.models.tiny import ORIGINALS, inputs

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
door = pytest.importorskip("manyheads.interop.hf", reason="transformers is in the hf extra")

TEXT = {"vocab": 50, "tokens": 16}
LLAMA = (32, 2, 4, 16, 64)
# fmt: off
STOCK: dict[str, tuple[Arch, str]] = {
    "gpt2": (f.gpt2(32, 2, 4, 8, 64, **TEXT, positions=16), "GPT2LMHeadModel"),
    "gpt2_untied": (f.gpt2(32, 2, 4, 8, 64, **TEXT, positions=16, tied=False), "GPT2LMHeadModel"),
    "llama": (f.llama(*LLAMA, kv_heads=2, **TEXT, rope=RopeLlama3(), tied=False), "LlamaForCausalLM"),
    "qwen2": (f.llama(32, 2, 4, 8, 64, **TEXT, rope=Rope(), tied=True, qkv_bias=True), "Qwen2ForCausalLM"),
    "qwen3": (f.llama(*LLAMA, kv_heads=2, **TEXT, rope=Rope(), tied=True, qk_norm=True), "Qwen3ForCausalLM"),
    "bert": (f.bert(32, 2, 4, 8, 64, **TEXT, positions=16, types=2), "BertForMaskedLM"),
    "bert_classifier": (f.bert(32, 2, 4, 8, 64, **TEXT, positions=16, types=2,
                               head=Classify(3, "class", None, hidden=32, act="tanh")), "BertForSequenceClassification"),
    "vit": (f.vit(32, 2, 3, 16, 64, image=32, patch=8, classes=7), "ViTForImageClassification"),
}
# fmt: on


@pytest.mark.parametrize("name", STOCK)
def test_a_stock_folder_is_read_by_the_stock_class_and_computes_the_same(name: str, tmp_path: Path) -> None:
    arch, kind = STOCK[name]
    model = build(arch, seed=0).double().eval()
    door.export(model, tmp_path, stock=True)
    twin, report = getattr(transformers, kind).from_pretrained(tmp_path, dtype=torch.float64, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert not (tmp_path / "modeling_manyheads.py").exists()
    (x,) = inputs(arch, 2, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(twin.eval()(x).logits, model(x), rtol=1e-5, atol=1e-5)  # norms are float32 there
    assert sum(p.numel() for p in twin.parameters()) == sum(p.numel() for p in model.parameters())


def test_what_no_stock_class_expresses_is_refused_with_the_difference(tmp_path: Path) -> None:
    gpt2 = STOCK["gpt2"][0]
    for arch, message in (
        (
            f.gpt2(32, 2, 4, 16, 64, **TEXT, positions=16),
            r"GPT2LMHeadModel cannot express .*head_dim is 16 in this rec",
        ),
        (
            replace(gpt2, stages=(replace(gpt2.stages[0], depth=1), gpt2.stages[0])),
            "stages has length 2 in this record",
        ),
        (ORIGINALS["xcit"], "transformers has no class for family 'xcit'"),
        (ORIGINALS["gpt2_tinystories"], "GPT2LMHeadModel cannot express this model"),
        (redesign(ORIGINALS["clip_text"], heads=5), "CLIPTextModel cannot express .* not a multiple of the number of"),
        (redesign(ORIGINALS["roberta"], heads=4), "RobertaForMaskedLM cannot express .*head_dim is 16 in this record"),
    ):
        with pytest.raises(UserError, match=message):
            door.export(arch, tmp_path, seed=0, stock=True)


def test_our_folder_carries_the_lines_that_load_it(tmp_path: Path) -> None:
    """Without the import transformers speaks of code to run, not of its own version; with trust, the lines are run."""
    model = build(ORIGINALS["gpt2"], seed=0).eval()
    door.export(model, tmp_path / "a")
    lines = (tmp_path / "a" / "modeling_manyheads.py").read_text()
    assert "import manyheads.interop.hf" in lines
    (x,) = inputs(ORIGINALS["gpt2"], 1)
    total = model(x).double().sum().item()
    script = (
        "import sys, torch, transformers\n"
        "from transformers import AutoModelForCausalLM as Auto\n"
        "try:\n    Auto.from_pretrained(sys.argv[1])\n"
        "except ValueError as error:\n    assert 'trust_remote_code' in str(error), error\n"
        "else:\n    raise SystemExit('loaded')\n"
        "assert 'manyheads' not in sys.modules\n"
        "model = Auto.from_pretrained(sys.argv[1], trust_remote_code=True).eval()\n"
        f"assert abs(model(torch.tensor({x.tolist()})).logits.double().sum().item() - {total}) < 1e-3\n"
        "model.save_pretrained(sys.argv[2])\n"
    )
    source = Path(door.__file__).parents[2]
    settings = os.environ | {"PYTHONPATH": str(source), "HF_MODULES_CACHE": str(tmp_path / "modules")}
    folders = [str(tmp_path / "a"), str(tmp_path / "b")]
    ran = subprocess.run(
        [sys.executable, "-c", script, *folders], env=settings, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert ran.returncode == 0, ran.stderr
    assert sorted(file.name for file in (tmp_path / "b").iterdir()) == sorted(
        file.name for file in (tmp_path / "a").iterdir()
    )
    assert transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "b").config.record() == ORIGINALS["gpt2"]
