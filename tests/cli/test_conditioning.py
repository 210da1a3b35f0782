"""`manyheads theory` and `manyheads probe` as a person meets them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from typer.testing import CliRunner

from manyheads.cli.probe import probe
from manyheads.cli.theory import choose, theory
from manyheads.spec import serialise as record
from manyheads.spec.errors import UserError
from tests.models.tiny import ORIGINALS

app = typer.Typer()
app.command()(probe)
app.command()(theory)


def run(*args: str) -> str:
    """What a command prints; a user's mistake is raised as it is."""
    done = CliRunner(env={"COLUMNS": "140"}).invoke(app, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def davit(tmp_path: Path) -> str:
    record.save(ORIGINALS["davit"], tmp_path / "davit.json")
    return str(tmp_path / "davit.json")


def test_theory_shows_the_peak() -> None:
    out = run("theory", "--tokens", "65", "--head-dim", "16", "--samples", "20")
    assert next(line for line in out.splitlines() if "peak" in line).split()[0] == "4"
    assert "worst at 4.1 heads" in out


def test_theory_for_machines_and_as_a_figure(tmp_path: Path) -> None:
    args = ("theory", "--tokens", "197", "--head-dim", "64", "--json", "--samples", "50")
    point = json.loads(run(*args, "--heads", "12"))["rows"]
    assert len(point) == 1
    assert point[0]["kappa"] == pytest.approx(2.98, abs=0.02)
    assert point[0]["sampled_log_kappa"] == pytest.approx(point[0]["log_kappa"], abs=0.02)
    report = json.loads(run(*args, "--plot", str(tmp_path / "theory.svg")))
    assert [row["heads"] for row in report["rows"]] == choose(197 / 64)
    assert "<svg" in (tmp_path / "theory.svg").read_text()


def test_probe_prints_every_site_and_says_what_it_measured(davit: str) -> None:
    out = run("probe", davit, "--batch", "2")
    assert out.count("blocks.") == 16
    assert "initial weights (seed 0) on 2 samples of noise" in out
    assert "window: 8 layers" in out
    assert "channel: 8 layers" in out


def test_probe_for_machines_and_as_a_figure(tmp_path: Path) -> None:
    record.save(ORIGINALS["vit"], tmp_path / "vit.json")
    options = ("--json", "--detail", "--jacobian", "--plot", str(tmp_path / "kappa.svg"))
    report = json.loads(run("probe", str(tmp_path / "vit.json"), *options))
    assert (report["input"], report["weights"]) == ("noise", "initial weights (seed 0)")
    assert len(report["sites"]) == 3
    site = report["sites"][-1]
    assert site["kappa"] == pytest.approx(math.exp(site["log_kappa"]))
    assert site["detail"]["entropy"] > 0
    assert site["jacobian"]["sigma_max"] > 0
    assert "<svg" in (tmp_path / "kappa.svg").read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("theory", "--tokens", "0", "--head-dim", "4"), "--tokens 0"),
        (("theory", "--tokens", "9", "--head-dim", "4", "--samples", "0", "--plot", "x.txt"), "ends in .svg"),
        (("probe", "vit_q"), "did you mean"),
        (("probe", "vit_b", "--batch", "0"), "--batch 0"),
        (("probe", "vit_b", "--images", "a", "--text", "b"), "both"),
        (("probe", "nystromformer_listops", "--images", "a"), "does not take images"),
        (("probe", "vit_ti", "--tap", "blocks.*=out"), "not MODULE=PROJECTION:HEADS"),
        (("probe", "vit_ti", "--random", "--batch", "1", "--tap", "block.*=out:3"), "no such module"),
    ],
)
def test_a_mistake_is_a_sentence(args: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(*args)


def folder(path: Path, name: str, **settings: Any) -> str:
    """A folder that holds the configuration of a transformers model."""
    transformers = pytest.importorskip("transformers", reason="probes a model of transformers")
    getattr(transformers, f"{name}Config")(**settings).save_pretrained(path)
    return f"hf:{path}"


SIGLIP = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
}


def test_probe_says_what_it_left_out_and_why(tmp_path: Path) -> None:
    name = folder(tmp_path, "SiglipVision", **SIGLIP, patch_size=8)
    report = json.loads(run("probe", name, "--random", "--json"))
    assert [site["name"] for site in report["sites"]] == [f"encoder.layers.{i}.self_attn" for i in range(2)]
    assert report["summary"]["softmax"]["layers"] == 2
    assert [(module["name"], module["left_out"]) for module in report["left_out"]] == [
        ("head.attention", "it has one query row, so its heads are no matrix of tokens")
    ]
    out = run("probe", name, "--random")
    assert f"left out: 1 modules; manyheads probe {name} --taps says more" in out
    assert "head.attention (torch.nn.modules.activation.MultiheadAttention): it has one query row" in out


def test_taps_lists_every_attention_and_where_the_probe_listens(tmp_path: Path) -> None:
    name = folder(tmp_path, "SiglipVision", **SIGLIP, patch_size=8)
    out = run("probe", name, "--random", "--taps")
    assert out.count("out_proj") == 2
    assert "it has one query row" in out
    listed = json.loads(run("probe", name, "--random", "--taps", "--json"))["modules"]
    assert [module["listens"] for module in listed] == ["out_proj", "out_proj", "arguments"]


def test_a_tap_on_the_command_line_is_what_taps_proposes(tmp_path: Path) -> None:
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 50, "n_positions": 16}
    name = folder(tmp_path, "ImageGPT", **sizes)
    with pytest.raises(UserError, match="no attention in this ImageGPTModel"):
        run("probe", name, "--random", "--tokens", "12")
    listed = " ".join(run("probe", name, "--random", "--tokens", "12", "--taps").split())
    assert "no tap knows its class" in listed
    assert "--tap 'h.0.attn=c_proj:4'" in listed
    report = json.loads(run("probe", name, "--random", "--tokens", "12", "--json", "--tap", "h.*.attn=c_proj:4"))
    assert [(site["name"], site["heads"]) for site in report["sites"]] == [("h.0.attn", 4), ("h.1.attn", 4)]
    assert report["left_out"] == []


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ConvNext", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "image_size": 32}),
        ("Mamba", {"hidden_size": 16, "num_hidden_layers": 1, "state_size": 4, "vocab_size": 50}),
    ],
)
def test_models_without_attention_are_told_so(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    model = folder(tmp_path, name, **settings)
    with pytest.raises(UserError, match=f"this {name}Model has no attention"):
        run("probe", model, "--random", "--tokens", "8")
    assert "has no attention" in run("probe", model, "--random", "--tokens", "8", "--taps")


def test_probe_prints_nan_where_activations_are_nan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from manyheads.interop.load import ImageInput

    def broken(self: ImageInput, batch: int, seed: int = 0) -> torch.Tensor:
        return torch.full((batch, self.channels, self.size, self.size), math.nan)

    record.save(ORIGINALS["vit"], tmp_path / "vit.json")
    monkeypatch.setattr(ImageInput, "noise", broken)
    out = run("probe", str(tmp_path / "vit.json"))
    assert "inf" not in out.replace("infinite", "")
    assert "kappa nan by the mean" in out
    assert "some of the activations are NaN" in out
