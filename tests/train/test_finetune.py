"""A run that fine-tunes starts from the weights its task names, wherever it is trained from, or not at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from manyheads.arch.families import crammed_bert, gpt2, vit
from manyheads.cli import main
from manyheads.models.build import build
from manyheads.models.store import save
from manyheads.runs import Run
from manyheads.spec.arch import Arch
from manyheads.spec.datasets import glue_set
from manyheads.spec.errors import UserError
from manyheads.tasks import Glue, fit, to_dict
from manyheads.train.early_end import Stopped
from manyheads.train.finetune import check_fits, finetune, weights_digest
from manyheads.train.loop import train
from tests.specs import run_spec
from tests.tasks.glue_files import write
from tests.train.tiny import spec, together, traces
from tests.train.workers import Ear, refused_together, train_together

ENCODER = crammed_bert(32, 1, 2, 16, 48, vocab=2048, tokens=24)
STILL: dict[str, Any] = {"batch": 8, "basis": {"kind": "steps", "amount": 2}, "lr": 1e-12, "weight_decay": 0.0}
LEARNS = STILL | {"lr": 1e-3, "basis": {"kind": "steps", "amount": 4}, "probe_every": 2, "probe_samples": 2}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A GLUE folder, and a pretrained model among runs."""
    write(tmp_path, glue_set("rte"), train=32, held=12)
    save(build(ENCODER, seed=3), tmp_path / "runs" / "pretrained" / "model")
    return tmp_path


def made(root: Path, name: str, recipe: dict[str, Any] = STILL, **fields: Any) -> Run:
    """A fine-tuning run."""
    task = Glue("rte", tokenizer="stories", tokens=24, **fields)
    return Run.create(root / "runs" / name, run_spec(fit(task, ENCODER), to_dict(task), recipe, 1))


def kept(run: Run) -> bool:
    """Whether the trained encoder is the pretrained one: a rate of 1e-12 moves nothing."""
    source, now = build(ENCODER, seed=3).state_dict(), load_file(run.model / "model.safetensors")
    shared = [name for name in now if name in source and not name.startswith("head.")]
    assert len(shared) > 5
    return all(torch.allclose(now[name], source[name], rtol=0, atol=1e-8) for name in shared)


def test_a_plain_train_starts_from_the_weights_named_which_it_finds_beside_the_run(root: Path) -> None:
    run = made(root, "rte", weights=weights_digest(root / "runs/pretrained/model"))
    train(run, device="cpu", progress="none", root=root)
    assert kept(run)
    drawn = made(root, "drawn", weights="scratch")
    train(drawn, device="cpu", progress="none", root=root)
    assert not kept(drawn)


def test_it_writes_what_a_run_given_the_folder_writes(root: Path) -> None:
    stated = weights_digest(root / "runs/pretrained/model")
    train(made(root, "plain", LEARNS, weights=stated), device="cpu", progress="none", root=root)
    finetune(
        made(root, "given", LEARNS, weights=stated),
        root / "runs/pretrained/model",
        device="cpu",
        progress="none",
        root=root,
    )
    assert traces(root / "runs/plain") == traces(root / "runs/given")


def test_several_processes_start_from_them_too(root: Path) -> None:
    run = made(root, "rte", data=str(root / "glue"), weights=weights_digest(root / "runs/pretrained/model"))
    together(2, train_together, str(run.path), run.spec.to_dict(), "ddp")
    assert kept(run)


def test_without_them_nothing_is_trained(root: Path) -> None:
    with pytest.raises(UserError, match=r"names none; write --weights FOLDER .*, or weights='scratch' for"):
        train(made(root, "none"), device="cpu", progress="none", root=root)
    lost = made(root, "lost", weights="ab" * 32)
    with pytest.raises(
        UserError, match="starts from weights of sha256 abababababab, and no folder beside it has these"
    ):
        train(lost, device="cpu", progress="none", root=root)
    with pytest.raises(UserError, match=r"has sha256 .*, and the run's task says weights='abababababab'"):
        train(lost, device="cpu", progress="none", root=root, weights=root / "runs/pretrained/model")
    for name in ("none", "lost"):
        assert not (root / "runs" / name / "metrics.jsonl").exists()
        assert not list((root / "runs" / name).glob("checkpoint/*"))


def test_weights_for_what_starts_from_none_are_refused(root: Path) -> None:
    with pytest.raises(UserError, match="the run states no `weights`; leave them out, or start"):
        train(Run.create(root / "blobs", spec()), device="cpu", progress="none", weights=root)
    with pytest.raises(UserError, match="the task Glue says weights='scratch'; leave them out"):
        train(made(root, "s", weights="scratch"), device="cpu", progress="none", weights=root)


def test_the_command_takes_the_weights_of_a_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It states their digest in the task, and the same command goes on; without them nothing is written."""
    monkeypatch.chdir(root)
    small = [
        "--set",
        "task.tokenizer=stories",
        "--set",
        "task.tokens=24",
        "--steps",
        "2",
        "--batch",
        "8",
        "--lr",
        "1e-12",
        "--device",
        "cpu",
        "--data-root",
        ".",
        "--quiet",
    ]
    command = ["train", "runs/pretrained/model", "--recipe", "glue", *small, "--out", "mine"]
    with pytest.raises(SystemExit) as left:
        main(command)
    assert left.value.code == 2
    assert not (root / "mine").exists()
    with pytest.raises(SystemExit) as left:
        main([*command, "--weights", "runs/pretrained"])
    assert left.value.code == 0
    run = Run.open(root / "mine")
    assert run.spec.task.weights == weights_digest(root / "runs/pretrained/model")
    assert run.spec.recipe.rates.dropout == 0.1
    assert kept(run)


def test_a_task_is_learned_by_the_loop_from_pretrained_weights(root: Path) -> None:
    """Well below the constant guess, whose loss is about ln 2."""
    write(root / "more", glue_set("rte"), train=160, held=40)
    learns = {"batch": 32, "basis": {"kind": "steps", "amount": 120}, "lr": 5e-3, "betas": [0.9, 0.98]}
    run = made(root, "rte", learns, weights=weights_digest(root / "runs/pretrained/model"))
    result = train(run, device="cpu", progress="none", root=root / "more")
    assert 0.65 < result["trivial"]["loss"] < 0.75
    assert result["score"]["loss"] < 0.35
    assert result["score"]["accuracy"] > 0.85


def test_a_corrected_command_may_take_the_folder(root: Path) -> None:
    wrong = made(root, "mine", weights="0" * 64)
    with pytest.raises(UserError, match="no folder beside it has these"):
        train(wrong, device="cpu", progress="none", root=root)
    assert wrong.state == "failed"
    right = made(root, "mine", weights=weights_digest(root / "runs/pretrained/model"))
    train(right, device="cpu", progress="none", root=root)
    assert kept(right)


def test_where_all_checkpoints_are_damaged_it_starts_from_the_weights_again_and_says_so(root: Path) -> None:
    """Not from the seed's, as a run that fine-tunes nothing would."""
    slow = STILL | {"basis": {"kind": "steps", "amount": 8}, "checkpoint_every": 2, "log_every": 2}
    run = made(root, "rte", slow, weights=weights_digest(root / "runs/pretrained/model"))
    with pytest.raises(Stopped):
        train(run, device="cpu", progress=Ear(5), root=root)
    left = sorted(run.checkpoints.glob("step-*/*.safetensors"))
    assert len(left) == 2
    for shard in left:
        shard.write_bytes(shard.read_bytes()[:-8])
    ear = Ear()
    train(run, device="cpu", progress=ear, root=root)
    assert [text for text in ear.heard if "is damaged" in text]
    assert kept(run)
    told = [
        json.loads(line)["step"] for line in (run.path / "metrics.jsonl").read_text().splitlines() if "train" in line
    ]
    assert told == [2, 4, 6, 8]


def test_where_the_first_process_refuses_the_others_do_too(root: Path) -> None:
    run = made(root, "lost", data=str(root / "glue"), weights="ab" * 32)
    together(2, refused_together, str(run.path), run.spec.to_dict(), "ddp", str(root))
    assert "no folder beside it has these" in (root / "refused-0").read_text()
    assert "cannot start; the first process says why" in (root / "refused-1").read_text()
    assert run.state == "failed"


# ------------------------------------------------------------------------------------ any task from trained weights
GPT = gpt2(16, 1, 2, 8, 32, vocab=2048, tokens=32, positions=32)
TEXT = {"is": "LanguageModel", "tokens": 32, "test_limit": 4}
VIT = vit(16, 1, 2, 8, 32, image=28, patch=14, channels=1, classes=10)
PICTURES = {"is": "Images", "limit": 20, "test_limit": 10}


def continued(root: Path, arch: Arch, task: dict[str, Any], start: Arch) -> Run:
    """A run of one still step from the weights of `start`, which lie among the runs."""
    save(build(start, seed=3), root / "runs" / "start" / "model")
    one = run_spec(arch, task, STILL | {"probe_every": 0}, 1)
    return Run.create(root / "runs" / "mine", replace(one, weights=weights_digest(root / "runs/start/model")))


@pytest.mark.parametrize(("arch", "task"), [(GPT, TEXT), (VIT, PICTURES)], ids=["text", "images"])
def test_any_task_trains_on_from_the_weights_that_its_run_states(
    arch: Arch, task: dict[str, Any], tmp_path: Path
) -> None:
    """They are found beside the run, and every tensor is theirs."""
    run = continued(tmp_path, arch, task, arch)
    train(run, device="cpu", progress="none")
    source, now = build(arch, seed=3).state_dict(), load_file(run.model / "model.safetensors")
    assert all(torch.allclose(now[name], source[name], rtol=0, atol=1e-8) for name in source)


def test_without_the_weights_that_it_states_no_run_begins(tmp_path: Path) -> None:
    run = continued(tmp_path, GPT, TEXT, GPT)
    (tmp_path / "runs/start/model/model.safetensors").unlink()
    with pytest.raises(UserError, match=r"starts from weights of sha256 .*, and no folder beside it has these"):
        train(run, device="cpu", progress="none")
    save(build(GPT, seed=4), tmp_path / "other")
    with pytest.raises(
        UserError, match=r"has sha256 .*, and the run says weights=.*; start a new run, or give the right"
    ):
        train(run, device="cpu", progress="none", weights=tmp_path / "other")


def test_another_number_of_classes_and_another_size_are_told(tmp_path: Path) -> None:
    """The head is drawn from the seed, positions are interpolated, and all else is the saved model's."""
    start = vit(16, 1, 2, 8, 32, image=56, patch=14, channels=1, classes=7)
    run = continued(tmp_path, VIT, PICTURES, start)
    ear = Ear()
    train(run, device="cpu", progress=ear)
    told = "\n".join(ear.heard)
    assert "has no such head: head.out.weight, head.out.bias are drawn from the seed" in told
    assert "are interpolated from 56 px to 28 px" in told
    source, now = build(start, seed=3).state_dict(), load_file(run.model / "model.safetensors")
    same = [name for name in now if now[name].shape == source[name].shape]
    assert len(same) == len(now) - 3
    assert all(torch.allclose(now[name], source[name], rtol=0, atol=1e-8) for name in same)


def test_what_weights_do_not_fit_is_known_before_a_run_is_made(tmp_path: Path) -> None:
    save(build(VIT, seed=3), tmp_path)
    assert check_fits(VIT, tmp_path) == []
    more = replace(VIT, head=replace(VIT.head, classes=3))
    assert check_fits(more, tmp_path) == ["head.out.weight", "head.out.bias"]
    with pytest.raises(UserError, match=r"vit model without embed.class_tokens of shape \(1, 32\) .*the same width"):
        check_fits(vit(32, 1, 2, 16, 32, image=28, patch=14, channels=1, classes=10), tmp_path)
