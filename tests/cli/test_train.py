"""`manyheads train` as a person meets it: alone, resumed, under torchrun, and before anything is run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.arch.families import gpt2, vit
from manyheads.cli import main
from manyheads.experiments.demo import DEMO
from manyheads.experiments.registry import get
from manyheads.runs import Run
from manyheads.spec import serialise as record
from manyheads.spec.experiment import specs
from manyheads.spec.recipe import Basis
from manyheads.spec.text import LanguageModel

SMALL = ("--steps", "6", "--batch", "8", "--set", "task.limit=64", "--set", "task.test_limit=64", "--device", "cpu")


def run(*args: str, code: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `manyheads train ARGS` in a process of its own."""
    done = subprocess.run([sys.executable, "-m", "manyheads", "train", *args], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


def test_the_last_line_is_the_score_and_the_folder(tmp_path: Path) -> None:
    done = run("demo:lean", *SMALL, "--seed", "3", "--set", "recipe.probe_every=0.5", "--out", "mine", cwd=tmp_path)
    assert done.stdout.startswith("top1 0.")
    assert done.stdout.endswith(": mine\n")
    made = Run.open(tmp_path / "mine")
    assert (made.state, made.spec.seed, made.spec.task.limit, made.spec.recipe.batch) == ("done", 3, 64, 8)
    assert {record["step"] for record in made.spectra.read()} == {0, 3, 6}
    again = run("--resume", "mine", "--quiet", cwd=tmp_path)
    assert again.stdout == done.stdout
    assert "mine is finished" in again.stderr


def test_an_arm_of_an_experiment_is_trained_as_the_experiment_trains_it(tmp_path: Path) -> None:
    """The architecture alone is not the arm: its task and recipe belong to it, and a field may be changed."""
    planned = next(spec for spec in specs(DEMO, "smoke") if spec.label["arm"] == "lean")
    done = run("demo:lean", "--steps", "2", "--quiet", "--device", "cpu", cwd=tmp_path)
    assert "demo:lean has its own task and recipe: Images, 2 steps of batch 64" in done.stderr
    trained = Run.open(tmp_path / "runs" / "demo_lean-s0").spec
    assert trained == replace(planned, recipe=replace(planned.recipe, basis=Basis("steps", 2)), label={})
    small = next(spec for spec in specs(get("table2"), "small") if spec.label["arm"] == "fixed")
    said = run("table2:fixed", "--scale", "small", "--dry-run", cwd=tmp_path).stdout
    assert f"{int(small.recipe.basis.amount):,}" in said
    wrong = run("demo:lean", "--scale", "paper", code=2, cwd=tmp_path)
    assert "experiment demo has no scale 'paper'; write one of smoke" in wrong.stderr
    assert "--scale smoke belongs to an arm" in run("vit_ti", "--scale", "smoke", code=2, cwd=tmp_path).stderr


def test_a_recipe_and_a_task_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "recipe.json").write_text(
        json.dumps({"batch": 4, "basis": {"kind": "samples", "amount": 16}, "lr": 0.01})
    )
    (tmp_path / "task.json").write_text(json.dumps({"is": "Images", "limit": 32, "test_limit": 32}))
    run(
        "demo:split", "--recipe", "recipe.json", "--task", "task.json", "--lr", "0.002", "--device", "cpu", cwd=tmp_path
    )
    made = Run.open(tmp_path / "runs" / "demo_split-s0")
    assert made.result is not None
    assert (made.result["steps"], made.spec.recipe.lr, made.spec.task.limit) == (4, 0.002, 32)


def test_a_model_of_another_size_is_built_for_the_images(tmp_path: Path) -> None:
    done = run(
        "vit_ti",
        "--data",
        "fashion_mnist",
        "--set",
        "task.size=32",
        *SMALL[:-2],
        "--steps",
        "1",
        "--device",
        "cpu",
        "--quiet",
        cwd=tmp_path,
    )
    assert "built for 32 px, 1 channels and 10 classes" in done.stderr


def test_images_are_resized_to_the_models_size(tmp_path: Path) -> None:
    """The record stays as it is; a size that is stated is kept, and the model is built for it (above)."""
    record.save(vit(32, 1, 2, 16, 64, image=40, patch=8, classes=7), tmp_path / "mine.json")
    done = run("mine.json", *SMALL, "--steps", "1", "--quiet", "--out", "mine", cwd=tmp_path)
    assert "images of 28 px are resized to the model's 40 px" in done.stderr
    made = Run.open(tmp_path / "mine").spec
    assert (made.task.shape, made.arch.embed.image, made.arch.embed.channels) == ((3, 40), 40, 3)
    assert run("vit_ti", "--steps", "1", "--dry-run").stdout


def test_the_task_follows_from_the_record_and_the_data(tmp_path: Path) -> None:
    """A GPT reads text; the number of ids is in the manifest of the shards."""
    record.save(gpt2(16, 1, 2, 8, 32, vocab=99, tokens=16, positions=16), tmp_path / "gpt.json")
    (tmp_path / "text.txt").write_text("\n".join(f"Tom has {i} red balls." for i in range(400)))
    for split in ("train", "valid"):
        command = [
            "tokenize",
            "text.txt",
            "--out",
            "toms",
            "--tokenizer",
            "bytes",
            "--between",
            "line",
            "--split",
            split,
        ]
        subprocess.run([sys.executable, "-m", "manyheads", *command], cwd=tmp_path, check=True, capture_output=True)
    usual = ("gpt.json", "--data-root", ".", "--steps", "1", "--batch", "2", "--device", "cpu", "--quiet")
    run(*usual, "--data", "shards:toms", "--set", "task.tokens=16", "--out", "one", cwd=tmp_path)
    run(
        *usual,
        "--data",
        "shards:toms",
        "--task",
        "language_model",
        "--set",
        "task.tokens=16",
        "--out",
        "two",
        cwd=tmp_path,
    )
    one, two = (Run.open(tmp_path / name).spec for name in ("one", "two"))
    assert one == two
    assert isinstance(one.task, LanguageModel)
    assert (one.task.ids, one.arch.embed.vocab) == (261, 261)


def test_a_recipes_task_keeps_its_augmentation_on_other_data(tmp_path: Path) -> None:
    record.save(vit(32, 1, 2, 16, 64, image=28, patch=7, channels=1, classes=10), tmp_path / "mine.json")
    small = ("--steps", "1", "--batch", "8", "--device", "cpu", "--quiet", *SMALL[4:8])
    run("mine.json", "--recipe", "table6", "--data", "fashion_mnist", *small, "--out", "mine", cwd=tmp_path)
    task = Run.open(tmp_path / "mine").spec.task
    assert (task.data, task.shape, task.class_count) == ("fashion_mnist", (1, 28), 10)
    assert (task.label_smoothing, task.augment.mixup) == (0.1, 0.8)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((), "no model was given"),
        (("demo:leen",), "did you mean lean"),
        (("vit_x",), "no model is called"),
        (("demo:lean", "--data", "fashion"), "is no image dataset"),
        (("demo:lean", "--recipe", "none.json"), "there is no such file"),
        (("demo:lean", "--set", "recipe.cilp=0"), "did you mean clip"),
        (("demo:lean", "--set", "clip=0"), "write recipe.FIELD=VALUE"),
        (("demo:lean", "--set", "recipe.clip.x=0"), "clip holds no record"),
        (("demo:lean", "--basis", "epochs"), "such as epochs=20"),
        (("demo:lean", "--basis", "parsecs=12"), "write one of 'steps'"),
        (("demo:lean", "--basis", "epochs=1", "--steps", "3"), "write one of them"),
        (("demo:lean", "--resume", "x"), "leave out all that belongs"),
        (("--resume", "x"), "does not exist"),
        (("gpt2", "--task", "images"), "holds images"),
        (("vit_ti", "--task", "imagse"), "did you mean images"),
        (("nystromformer_image",), "write --task list_ops or --task"),
        (("vit_ti", "--data", "shards:x"), "is no image dataset"),
        (("gpt2", "--data", "shards:x"), "shards:x is not at"),
        (("bert_base", "--recipe", "glue", "--weights", "hf:a/b/c"), "hf:a/b/c is not a folder here, and it cannot be"),
        (("vit_ti", "--weights", "timm:vit_tiny_patch61_224"), "did you mean vit_tiny_patch16_224"),
        (("vit_ti", "--weights", "nowhere"), "holds no trained model; write hf:FOLDER"),
    ],
)
def test_mistakes_are_one_sentence(
    args: tuple[str, ...],
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as left:
        main(["train", *args])
    assert left.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_papers_recipe_is_estimated_for_eight_gpus_without_its_data() -> None:
    done = run("vit_b", "--recipe", "table6", "--dry-run", "--gpus", "8")
    values = {line[:16].strip(): line[16:].strip() for line in done.stdout.splitlines()}
    assert values["parameters"] == "86.57 M"
    assert values["steps"] == "375,342"  # 300 epochs of 1,281,167 images in batches of 1024
    assert values["rows at a time"] == "128 in each of 8 GPUs"
    assert "GB with fused attention" in values["memory of a GPU"]
    assert " h " in values["time"]


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    run("demo:lean", "--basis", "epochs=2", "--dry-run", cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_sigterm_saves_and_the_same_command_goes_on(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "manyheads",
        "train",
        "demo:lean",
        *SMALL[2:],
        "--set",
        "recipe.checkpoint_every=5",
        "--quiet",
        "--out",
        "mine",
    ]
    process = subprocess.Popen([*command, "--steps", "100000"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("mine/checkpoint/*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 143, told
    assert "resumes from there: mine" in told
    assert Run.open(tmp_path / "mine").state == "stopped"


def test_under_torchrun_two_processes_train_one_run(tmp_path: Path) -> None:
    args = ["demo:lean", *SMALL, "--out"]
    run(*args, "one", cwd=tmp_path)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node=2",
            "--master-port=0",
            "--rdzv-backend=c10d",
            "--rdzv-endpoint=localhost:0",
            "-m",
            "manyheads",
            "train",
            *args,
            "two",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("top1") == 1  # one process speaks
    one, two = (Run.open(tmp_path / name).metrics.read() for name in ("one", "two"))
    assert [record["kind"] for record in one] == [record["kind"] for record in two]
    assert one[-1]["loss"] == pytest.approx(two[-1]["loss"], rel=1e-4)
    assert Run.open(tmp_path / "two").result["machine"]["processes"] == 2  # type: ignore[index]
