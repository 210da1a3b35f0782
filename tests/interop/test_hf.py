"""The Auto classes load, train, generate with and save manyheads models."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from manyheads.models.build import build
from manyheads.spec import serialise as record
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Classify, Coordinates, Features, Lm, Masked, Pair, Token
from tests.models.tiny import ORIGINALS, inputs, variants

transformers = pytest.importorskip("transformers", reason="transformers is in the hf extra")
door = pytest.importorskip("manyheads.interop.hf", reason="transformers is in the hf extra")
# transformers has no class for a pair of texts or for coordinates; a model without a head has tests of its own
NAMES = [name for name, arch in ORIGINALS.items() if not isinstance(arch.head, Pair | Coordinates | Features)]


def auto(arch: Arch) -> type:
    """The Auto class that a record belongs to."""
    match arch.head:
        case Lm():
            return transformers.AutoModelForCausalLM
        case Masked():
            return transformers.AutoModelForMaskedLM
        case Classify() if isinstance(arch.embed, Token):
            return transformers.AutoModelForSequenceClassification
    return transformers.AutoModelForImageClassification


def labelled_batch(arch: Arch) -> dict[str, torch.Tensor]:
    """A batch by its keyword, with labels."""
    (x,) = inputs(arch, 2)
    name = "input_ids" if isinstance(arch.embed, Token) else "pixel_values"
    return {name: x, "labels": x if isinstance(arch.head, Lm | Masked) else torch.tensor([0, 1])}


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_round_trips_through_the_auto_classes(name: str, tmp_path: Path) -> None:
    arch = variants(name)["split"]
    twin = build(arch, seed=3).eval()
    door.export(twin, tmp_path / "a")
    batch = labelled_batch(arch)
    for folder in ("a", "b"):
        model, report = auto(arch).from_pretrained(tmp_path / folder, output_loading_info=True)
        assert not report["missing_keys"]
        assert not report["unexpected_keys"]
        out = model.eval()(**batch)
        (x,) = inputs(arch, 2)
        with torch.no_grad():
            assert torch.equal(out.logits, twin(x))
        assert out.loss.isfinite()
        assert model.config.record() == arch
        model.save_pretrained(tmp_path / "b")
    base = transformers.AutoModel.from_pretrained(tmp_path / "a")
    width = arch.stages[-1].width
    assert base(**{key: value for key, value in batch.items() if key != "labels"}).last_hidden_state.shape[-1] == width
    saved = json.loads((tmp_path / "b" / "config.json").read_text())
    assert (saved["model_type"], record.arch_from_dict(saved["arch"])) == ("manyheads", arch)


def test_the_language_models_loss_is_the_next_tokens() -> None:
    arch = ORIGINALS["gpt2"]
    model = door.wrap(build(arch, seed=0)).eval()
    (ids,) = inputs(arch, 2)
    labels = ids.clone()
    labels[0, :5] = -100
    out = model(input_ids=ids, labels=labels)
    logs = out.logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    predicted = labels[:, 1:] != -100
    assert out.loss.item() == pytest.approx(-logs[predicted].mean().item(), rel=1e-5)
    twice = model(input_ids=ids, labels=labels, num_items_in_batch=torch.tensor(2 * int(predicted.sum())))
    assert twice.loss.item() == pytest.approx(out.loss.item() / 2, rel=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_generate_runs_and_padding_in_front_changes_nothing(name: str) -> None:
    model = door.wrap(build(ORIGINALS[name], seed=1)).eval()
    alone = model.generate(torch.tensor([[5, 6, 7]]), max_new_tokens=5, do_sample=False)
    padded = model.generate(
        torch.tensor([[0, 0, 5, 6, 7], [1, 2, 3, 4, 5]]),
        do_sample=False,
        max_new_tokens=5,
        attention_mask=torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]),
    )
    assert torch.equal(alone[0, 3:], padded[0, 5:])
    with torch.no_grad():  # greedy decoding, by hand
        ids = torch.tensor([[5, 6, 7]])
        for _ in range(5):
            ids = torch.cat((ids, model.model(ids)[:, -1:].argmax(-1)), dim=1)
    assert torch.equal(ids, alone)
    assert model.generate(torch.tensor([[5, 6]]), max_new_tokens=3, num_beams=2).shape == (1, 5)


@pytest.mark.parametrize("name", ["gpt2", "bert", "vit", "nystromformer"])
def test_the_trainer_trains(name: str, tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate")
    arch = ORIGINALS[name]
    model = auto(arch).from_config(door.ManyheadsConfig(arch=arch))
    batch = labelled_batch(arch)
    rows = [{key: value[i] for key, value in batch.items()} for i in (0, 1)] * 4
    settings = transformers.TrainingArguments(
        str(tmp_path),
        max_steps=4,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
        logging_steps=1,
        save_strategy="no",
        gradient_accumulation_steps=2,
        remove_unused_columns=False,
        disable_tqdm=True,
    )
    trainer = transformers.Trainer(model, settings, train_dataset=rows, eval_dataset=rows)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before
    trainer.save_model(str(tmp_path / "last"))
    again = auto(arch).from_pretrained(tmp_path / "last")
    assert all(torch.equal(a, b.cpu()) for a, b in zip(again.parameters(), model.parameters(), strict=True))


@pytest.mark.parametrize("name", ["gpt2", "bert", "vit", "nystromformer"])
def test_accumulated_gradients_are_those_of_the_whole_batch(name: str, tmp_path: Path) -> None:
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate")
    arch, logs = ORIGINALS[name], []
    batch = labelled_batch(arch)
    rows = [{key: value[i % 2] for key, value in batch.items()} for i in range(8)]
    for size, parts in ((8, 1), (2, 4)):
        torch.manual_seed(0)
        model = auto(arch).from_config(door.ManyheadsConfig(arch=arch))
        settings = transformers.TrainingArguments(
            str(tmp_path),
            max_steps=1,
            per_device_train_batch_size=size,
            gradient_accumulation_steps=parts,
            report_to=[],
            use_cpu=True,
            logging_steps=1,
            save_strategy="no",
            remove_unused_columns=False,
            disable_tqdm=True,
        )
        trainer = transformers.Trainer(model, settings, train_dataset=rows)
        trainer.train()
        logs.append([trainer.state.log_history[0][key] for key in ("loss", "grad_norm")])
    assert logs[0] == pytest.approx(logs[1], rel=1e-3)


def test_initial_weights_are_the_familys_own() -> None:
    """Not the library's default draw: GPT-2 scales what writes into the stream by depth."""
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(door.ManyheadsConfig(arch=ORIGINALS["gpt2"]))
    out, qkv = model.model.blocks[0].attention.op.out.weight, model.model.blocks[0].attention.op.qkv.weight
    assert out.std().item() == pytest.approx(0.02 / 6**0.5, rel=0.15)
    assert qkv.std().item() == pytest.approx(0.02, rel=0.15)


@pytest.mark.parametrize("name", ["bert", "crammed_bert"])
def test_a_masked_model_is_fine_tuned_on_labels(name: str, tmp_path: Path) -> None:
    twin = build(ORIGINALS[name], seed=0)
    door.export(twin, tmp_path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=3)
    ids = inputs(ORIGINALS[name], 2)[0]
    mask = torch.ones_like(ids)
    mask[1, -4:] = 0
    out = model(input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids), labels=torch.tensor([0, 2]))
    out.loss.backward()
    assert out.logits.shape == (2, 3)
    assert torch.equal(model.model.blocks[0].mlp.op.inp.weight, twin.blocks[0].mlp.op.inp.weight)
    assert model.model.head.out.weight.std() < 0.1  # drawn, not left as memory had it
    model.save_pretrained(tmp_path / "tuned")
    again = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned").eval()
    batch = {"input_ids": ids, "attention_mask": mask}
    assert torch.equal(again(**batch).logits, model.eval()(**batch).logits)
    score = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=1)
    assert score(input_ids=ids, labels=torch.tensor([0.5, 2.0])).loss.isfinite()


@pytest.mark.parametrize("name", ["bert", "nystromformer"])
def test_segment_types_reach_every_model_whose_record_has_them(name: str) -> None:
    arch = ORIGINALS[name]
    assert isinstance(arch.embed, Token)
    arch = replace(arch, embed=replace(arch.embed, types=2))
    twin = build(arch, seed=0).eval()
    ids = inputs(arch, 2)[0]
    types = torch.zeros_like(ids)
    types[:, -3:] = 1
    with torch.no_grad():
        logits = door.wrap(twin).eval()(input_ids=ids, token_type_ids=types).logits
        assert torch.equal(logits, twin(ids, types=types))
        assert not torch.equal(logits, twin(ids))


def test_tables_that_are_never_saved_are_filled_when_loaded(tmp_path: Path) -> None:
    for name in ("llama", "crammed_bert", "xcit"):
        twin = build(ORIGINALS[name], seed=0)
        door.export(twin, tmp_path / name)
        model = auto(ORIGINALS[name]).from_pretrained(tmp_path / name)
        for (at, ours), (_, theirs) in zip(twin.named_buffers(), model.model.named_buffers(), strict=True):
            assert torch.equal(ours, theirs), at


def test_the_wrong_class_is_refused(tmp_path: Path) -> None:
    door.export(ORIGINALS["gpt2"], tmp_path, seed=0)
    with pytest.raises(UserError, match="needs a Masked head"):
        transformers.AutoModelForMaskedLM.from_pretrained(tmp_path)
    with pytest.raises(UserError, match="no counterpart in transformers"):
        door.export(ORIGINALS["nystromformer_pair"], tmp_path, seed=0)
    model = door.wrap(build(ORIGINALS["gpt2"], seed=0))
    assert model.resize_token_embeddings(50) is model.get_input_embeddings()
    assert model.resize_token_embeddings(60).num_embeddings == 60
    with pytest.raises(UserError, match="has no arch"):
        transformers.AutoModelForCausalLM.from_config(door.ManyheadsConfig())
    with pytest.raises(UserError, match="reads text"):
        transformers.AutoModelForSequenceClassification.from_config(door.ManyheadsConfig(arch=ORIGINALS["vit"]))


def test_a_half_precision_load_keeps_its_tables(tmp_path: Path) -> None:
    door.export(ORIGINALS["llama"], tmp_path, seed=0)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    assert model.model.blocks[0].mlp.op.inp.weight.dtype == torch.bfloat16
    full = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    ids = inputs(ORIGINALS["llama"], 1)[0]
    with torch.no_grad():
        torch.testing.assert_close(model(input_ids=ids).logits.float(), full(input_ids=ids).logits, atol=0.02, rtol=0.1)
