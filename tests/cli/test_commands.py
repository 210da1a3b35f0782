"""The commands as a person meets them: output, exit codes, speed."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from manyheads.arch import zoo
from manyheads.arch.count import params
from manyheads.spec import serialise as record


def run(*args: str, code: int = 0, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `manyheads ARGS` in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "manyheads", *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"COLUMNS": "120"},
    )
    assert done.returncode == code, done.stderr
    return done


def test_shape_prints_original_and_redesign_side_by_side() -> None:
    out = run("shape", "vit_b", "--depth", "7", "--heads", "16", "--mlp-dim", "1536").stdout
    for text in ("86.57 M", "40.11 M", "0.463", "inner / tokens", "5.20", "35.13 G", "policy: fixed"):
        assert text in out


def test_shape_for_machines() -> None:
    args = ("--depth", "7", "--heads", "16", "--mlp-dim", "1536", "--json", "--controls")
    data = json.loads(run("shape", "vit_b", *args).stdout)
    assert data["redesign"]["params"]["total"] == 40_112_872
    assert data["original"]["forward_flops"] == 35_127_656_448
    assert data["redesign"]["inner_per_token"] == [round(1024 / 197, 4)]
    assert data["policy"] == "fixed"
    assert data["controls"]["depth_only"]["params"] == 34_602_472


def test_staged_families_take_comma_lists() -> None:
    args = ("--depth", "1,1,5,1", "--heads", "4,8,32,32", "--policy", "split", "--json")
    data = json.loads(run("shape", "davit_b", *args).stdout)
    assert data["redesign"]["params"]["total"] == 62_653_416
    assert data["policy"] == "split"


def test_a_saved_record_or_a_config_in_place_of_a_name(tmp_path: Path) -> None:
    run("shape", "vit_b", "--heads", "16", "--save", "lean.json", cwd=tmp_path)
    lean = record.load(tmp_path / "lean.json")
    data = json.loads(run("shape", "lean.json", "--json", cwd=tmp_path).stdout)
    assert data["original"]["params"]["total"] == params(lean).total
    folder = tmp_path / "gpt2"
    folder.mkdir()
    config = {
        "model_type": "gpt2",
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "vocab_size": 50257,
        "n_positions": 1024,
    }
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("gpt2", "hf:gpt2", "gpt2/config.json"):
        data = json.loads(run("shape", name, "--json", cwd=tmp_path).stdout)
        assert data["original"]["params"]["total"] == 124_439_808
    row = json.loads(run("shape", "paper:vit_l/original", "--json").stdout)
    assert row["original"]["params"]["total"] == 203_614_184


def test_context_length_as_the_user_runs_it() -> None:
    data = json.loads(run("shape", "llama_1b", "--tokens", "2048", "--json").stdout)
    assert data["original"]["tokens"] == [2048]
    assert data["original"]["kv_bytes_per_token"] == 2 * 2 * 16 * 8 * 64


def test_zoo_lists_every_name() -> None:
    out = run("zoo").stdout
    assert all(name in out for name in zoo.NAMES)
    assert [row["name"] for row in json.loads(run("zoo", "--json").stdout)] == list(zoo.NAMES)


def test_audit_prints_every_row_and_the_verdict() -> None:
    out = run("audit").stdout
    for text in ("davit_b/lean", "62,653,416", "MLP 2048 in place of 4096", "16,896", "61.36-67.66 M", "8 of the 13"):
        assert text in " ".join(out.split())
    data = json.loads(run("audit", "--json").stdout)
    assert len(data["rows"]) == 36
    assert len(data["figures"]) == 9


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("shape", "vit_bb"), "did you mean vit_b"),
        (("shape", "vit_b", "--heads", "18", "--policy", "split"), "768/18 is not whole"),
        (("shape", "vit_b", "--heads", "many"), "write a whole number"),
        (("shape", "davit_b", "--depth", "3"), "one number per stage"),
        (("shape", "vit_b", "--heads", "16", "--policy", "thin"), "write 'fixed'"),
        (("shape", "vit_b", "--policy", "split"), "add --heads"),
        (("shape", "no/such/arch.json"), "cannot be read"),
        (("shape", "paper:vit_x/lean"), "the paper has no row"),
        (("shape", "timm:vit_base_patch16_224x"), "has no model 'vit_base_patch16_224x'"),
        (("shape", "vit_b", "--controls"), "controls belong to a redesign"),
        (("shape", "vit_b", "--save", "no/such/folder/x.json"), "cannot be written"),
        (("shape", "vit_b", "--heads", "100000000", "--policy", "split"), "does not split into 100000000 heads"),
        (("shape", "x" * 300), "no model is called"),
        (("shape",), "Missing argument"),
        (("shapes",), "No such command"),
    ],
)
def test_a_users_mistake_is_a_sentence_and_exit_code_2(args: tuple[str, ...], says: str) -> None:
    done = run(*args, code=2)
    assert says in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_shape_answers_in_a_blink() -> None:
    """Under 0.4 s of processor time from a cold start, the best of five."""
    best = float("inf")
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run("shape", "vit_b", "--depth", "7", "--heads", "16", "--mlp-dim", "1536")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert best < 0.4


@pytest.mark.parametrize("columns", ["0", "", "-1", "²", "9" * 30])
def test_a_terminal_that_says_no_width_gets_the_usual_one(columns: str) -> None:
    environment = os.environ | {"COLUMNS": columns}
    command = [sys.executable, "-m", "manyheads", "zoo"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert "22.05 M" in next(line for line in done.stdout.splitlines() if line.startswith("vit_s "))


def test_output_can_be_cut_short() -> None:
    """`manyheads audit | head -1` is not an error."""
    shell = f"{sys.executable} -m manyheads audit | head -1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True)
    assert "Traceback" not in done.stderr


def test_version() -> None:
    from manyheads import __version__

    assert run("--version").stdout.strip() == __version__


@pytest.mark.parametrize("name", ["m[v2].json", "q[b.json", "a" * 90 + ".json"])
def test_odd_file_names_are_shown_as_they_are(name: str, tmp_path: Path) -> None:
    record.save(zoo.get("vit_ti"), tmp_path / name)
    out = run("shape", name, "--heads", "6", cwd=tmp_path).stdout
    assert name[:20] in out
    assert "parameters" in out


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n_head": 0}, "n_head is 0"),
        ({"n_embd": "768"}, "n_embd is '768'"),
        ({"n_head": 13}, "is not whole"),
        ({"head_dim": 10}, "ignores head_dim 10"),
        ({"architectures": ["GPT2ForTokenClassification"]}, "reads"),
        ({"architectures": 5}, "write a list of class names"),
        ({"model_type": "gpt3"}, "is not one manyheads reads; those are arcee, bert"),
        ({"scale_attn_by_inverse_layer_idx": True}, "manyheads does not build models with"),
        ({"n_layer": None}, "lacks n_layer"),
        ({"activation_function": "mish"}, "manyheads has no activation_function"),
        ({"layer_norm_epsilon": "x"}, "write a number"),
    ],
)
def test_a_bad_config_is_a_sentence(change: dict, says: str, tmp_path: Path) -> None:
    config = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12} | change
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = run("shape", "config.json", code=2, cwd=tmp_path)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
