"""`manyheads plan` as a person meets it: a table, JSON, files that run, sentences for mistakes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from manyheads.arch import zoo
from manyheads.arch.count import params
from manyheads.arch.families import gpt2, vit
from manyheads.arch.redesign import redesign
from manyheads.cli import app, main
from manyheads.cli.plan import plan
from manyheads.spec import serialise as record

if all(command.callback is not plan for command in app.registered_commands):  # wherever it is not listed yet
    app.command()(plan)


@dataclass(frozen=True)
class Done:
    """What a command printed."""

    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs `manyheads plan ARGS` in a folder of its own; `code` is the exit code it has to have."""
    monkeypatch.chdir(tmp_path)

    def command(*args: str, code: int = 0, columns: int = 150, name: str = "plan") -> Done:
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit) as left:
            main([name, *args])
        out = capsys.readouterr()
        assert (left.value.code or 0) == code, out.err
        return Done(out.out, out.err)

    return command


def test_a_person_gets_a_table_reasons_warnings_cost_and_what_to_run(run: Run) -> None:
    out = " ".join(run("vit_b", "--params", "0.5x", "--also", "7x16x64/1536", "--also", "7x24x32").stdout.split())
    for text in (
        "86.57 M",
        "43.28 M (0.5x)",
        "40.11 M 0.46",
        "24 x 64",
        "predicted kappa",
        "inner / tokens is",
        "trains from scratch",
        "GPU-hours",
        "300 epochs of ImageNet",
        "depth_only",
        "params_matched",
        "split (also)",
        "Theory predicts no change of kappa (1.00x)",
    ):
        assert text in out, text


def test_a_narrow_terminal_keeps_the_numbers_whole(run: Run) -> None:
    out = run("gpt2", "--params", "0.7x", "--tokens", "256", columns=80).stdout
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_machines_get_the_whole_plan(run: Run) -> None:
    data = json.loads(run("vit_b", "--params", "40112872", "--also", "7x16x64/1536", "--top", "4", "--json").stdout)
    lean = redesign(zoo.get("vit_b"), depth=7, heads=16, mlp_dim=1536)
    assert data["also"][0]["on_front"]
    assert record.arch_from_dict(data["also"][0]["arch"]) == lean
    assert data["also"][0]["costs"]["params"] == 40_112_872
    assert len(data["designs"]) == 4
    assert data["budget"]["params"] == {"most": 40_112_872.0, "given": "40112872"}
    assert len(data["front"]["depth"]) == len(data["front"]["costs"]["params"])
    assert {note["level"] for note in data["designs"][0]["reasons"]} == {"reason"}
    assert [arm["name"] for arm in data["arms"]][:3] == ["original", "lean", "depth_only"]
    assert data["designs"][0]["training"]["assumption"]


def test_the_chosen_design_is_saved_with_its_arms(run: Run, tmp_path: Path) -> None:
    out = run("vit_ti", "--params", "0.6x", "--choose", "2", "--save", "lean.json", "--arms", "arms").stdout
    assert "manyheads train arms/$arm.json" in out
    data = json.loads(run("vit_ti", "--params", "0.6x", "--json").stdout)
    lean = record.load(tmp_path / "lean.json")
    assert record.to_dict(lean) == data["designs"][1]["arch"]
    assert record.load(tmp_path / "arms" / "lean.json") == lean
    assert record.load(tmp_path / "arms" / "original.json") == zoo.get("vit_ti")
    matched = record.load(tmp_path / "arms" / "params_matched.json")
    assert params(matched).total == pytest.approx(params(lean).total, rel=0.01)


def test_a_configuration_with_shared_keys_is_planned(run: Run, tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 512,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "head_dim": 64,
        "num_key_value_heads": 2,
        "intermediate_size": 1536,
        "vocab_size": 1000,
        "max_position_embeddings": 2048,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    data = json.loads(run("config.json", "--params", "0.7x", "--kv-cache", "0.6x", "--tokens", "256", "--json").stdout)
    assert data["original"]["kv_heads"] == [2]
    assert all(design["ratios"]["kv_cache"] <= 0.6 for design in data["designs"])
    grouped = json.loads(run("config.json", "--params", "0.7x", "--kv-heads", "any", "--json").stdout)
    assert {design["kv_heads"][0] for design in grouped["designs"]} != {2}


@pytest.mark.parametrize(
    ("kind", "model", "module"),
    [("timm", "vit_ti", "timm"), ("hf", "small.json", "transformers"), ("python", "vit_ti", "torch")],
)
def test_what_is_emitted_runs_as_printed(
    run: Run, kind: str, model: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line that the command prints builds the chosen design."""
    pytest.importorskip(module, reason="in the vision or hf extra")
    record.save(gpt2(64, 6, 2, 32, 256, vocab=100, tokens=32, positions=32), tmp_path / "small.json")
    data = json.loads(run(model, "--params", "0.8x", "--emit", kind, "--to", "lean", "--json").stdout)
    line = data["emitted"]["lines"][0].removeprefix("in Python:").split("   (in ")[0].strip()
    if kind == "python":
        monkeypatch.chdir(tmp_path / "lean")
        monkeypatch.syspath_prepend(tmp_path / "lean")
    space: dict = {}
    exec(line, space)
    sys.modules.pop("redesign", None)
    assert sum(p.numel() for p in space["model"].parameters()) == data["designs"][0]["costs"]["params"]
    if kind == "timm":
        assert "--device-modules manyheads.interop.timm --model local-dir:lean" in data["emitted"]["lines"][1]


def test_a_probe_of_the_model_is_used(run: Run, tmp_path: Path) -> None:
    record.save(redesign(zoo.get("vit_ti"), depth=3), tmp_path / "vit.json")
    probe = run("vit.json", "--detail", "--json", "--batch", "1", name="probe")
    (tmp_path / "probe.json").write_text(probe.stdout)
    out = run("vit.json", "--params", "0.9x", "--probe", "probe.json").stdout
    assert "probed" in out
    assert "of the probed tokens' variance" in " ".join(out.split())


def test_measuring_and_drawing(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is in the report extra")
    record.save(vit(64, 6, 2, 32, 256, image=32, patch=8, classes=10), tmp_path / "small.json")
    done = run("small.json", "--params", "0.7x", "--measure", "2", "--plot", "front.svg")
    assert "latency, batch 1" in done.stdout
    assert "predicted kappa" in (tmp_path / "front.svg").read_text()


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("vit_b",), "no budget was given"),
        (("vit_b", "--params", "0.5"), "without a unit"),
        (("vit_b", "--params", "1M"), "no redesign fits parameters <= 1.00 M (1M): parameters cannot come below"),
        (("vit_b", "--params", "0.5x", "--choose", "0"), "from 1 up"),
        (("vit_b", "--params", "0.5x", "--emit", "onnx"), "write one of timm, hf, python"),
        (("vit_b", "--params", "0.5x", "--multiples", "8"), "write three numbers"),
        (("vit_b", "--params", "0.5x", "--heads", "12"), "the fewest and the most"),
        (("vit_b", "--params", "0.5x", "--policy", "wide"), "write 'fixed'"),
        (("vit_b", "--kv-cache", "0.5x"), "keeps none"),
        (("gpt2", "--params", "0.7x", "--emit", "timm"), "timm holds image classifiers"),
        (("vit_x", "--params", "0.5x"), "did you mean"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_one_sentence(run: Run, args: tuple[str, ...], says: str) -> None:
    done = run(*args, code=2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
