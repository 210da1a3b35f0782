"""`manyheads rank` as a person meets it, and the coverage behind it on models whose tokens are known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from torch import nn
from typer.testing import CliRunner

from manyheads.arch.families import nearest_neighbor
from manyheads.cli.rank import rank
from manyheads.conditioning.coverage import centred, coverage, covered, token_variances
from manyheads.conditioning.theory import one_head, rank_coverage
from manyheads.models.build import build
from manyheads.spec import serialise as record
from manyheads.spec.errors import UserError
from tests.models.tiny import ORIGINALS

app = typer.Typer()
app.command()(rank)
POINTS = build(nearest_neighbor(16, 2, 4, 4, 32, tokens=50), seed=0)


def run(*args: str) -> str:
    """What the command prints; a user's mistake is raised as it is."""
    done = CliRunner(env={"COLUMNS": "150"}).invoke(app, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


# ------------------------------------------------------------------------------------------------------------ measured
def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    """Standard normal numbers."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_isotropic_tokens_are_covered_by_their_share() -> None:
    first, second = coverage(POINTS, normal(64, 50, 16), (8, 16))
    assert (first.layer, second.layer, first.tokens, first.width, first.heads, first.head_dim) == (0, 1, 50, 16, 4, 4)
    assert [share.head_dim for share in first.shares] == [4, 8, 16]
    assert [share.coverage for share in first.shares] == pytest.approx([0.25, 0.5, 1.0], abs=0.02)
    assert [share.floor for share in first.shares] == pytest.approx(one_head([0.25, 0.5, 1.0]), abs=0.01)
    assert first.effective_rank == pytest.approx(16, abs=0.1)
    assert first.needed in (14, 15, 16)
    assert sum(first.spectrum) == pytest.approx(1)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_few_samples_do_not_make_coverage_look_high(power: float) -> None:
    """400 tokens of 64 directions: taken as they are, they would say 0.55 in place of 0.25."""
    variances = 1 / np.arange(1, 65) ** power
    truth = [rank_coverage(variances**2, rank) for rank in (8, 16, 32)]
    scale = torch.tensor(variances).sqrt()
    curves = np.array([covered(centred(normal(8, 50, 64, seed=seed).double() * scale)) for seed in range(6)])
    found, most = curves.mean(0)[[7, 15, 31]], token_variances(centred(normal(8, 50, 64).double() * scale)) ** 2
    assert (found < np.array(truth) + 0.02).all()
    assert all(rank_coverage(most, rank) > true - 0.02 for true, rank in zip(truth, (8, 16, 32), strict=True))
    assert found == pytest.approx(truth, abs=0.03 if power == 0 else 0.13)
    many = covered(centred(normal(400, 50, 64).double() * scale))
    assert many[[7, 15, 31]] == pytest.approx(truth, abs=0.02)


def test_variances_that_fall_are_found_squared_in_the_score() -> None:
    variances = 1 / np.arange(1, 17)
    found = coverage(POINTS, normal(400, 50, 16) * torch.tensor(variances).sqrt().float())[0]
    assert found.spectrum == pytest.approx(variances / variances.sum(), rel=0.05)
    assert found.shares[0].coverage == pytest.approx((variances[:4] ** 2).sum() / (variances**2).sum(), abs=0.01)


def test_a_head_has_the_same_directions_for_all_samples() -> None:
    """Samples that each use other two directions need them all, though a sample alone needs two."""
    x = torch.zeros(16, 40, 16)
    for sample in range(16):
        at = 2 * (sample // 2)
        x[sample, :, at : at + 2] = normal(40, 2, seed=sample)
    together = token_variances(centred(x))
    assert (together > 0.3 * together.max()).sum() == 16
    assert (token_variances(centred(x[:1])) > 1e-9).sum() == 2


def test_neither_a_common_mean_nor_padding_counts() -> None:
    x = normal(6, 20, 8)
    plain = centred(x)
    assert torch.allclose(centred(x + normal(6, 1, 8)), plain, atol=1e-6)
    padded = torch.cat((x, torch.full((6, 5, 8), 9.0)), dim=1)
    masked = centred(padded, torch.arange(25).expand(6, -1) < 20)
    assert torch.allclose(masked[:, :20], plain)
    assert (masked[:, 20:] == 0).all()
    assert covered(masked) == pytest.approx(covered(plain))


def test_too_few_samples_are_told() -> None:
    with pytest.raises(UserError, match=r"3 samples.* give 4 or more"):
        coverage(POINTS, normal(3, 50, 16))
    coverage(POINTS, normal(4, 50, 16))


def test_foreign_modules_and_sequences_first() -> None:
    x = normal(30, 6, 12)
    found = []
    for first in (True, False):
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(12, 3, 16, 0.0, batch_first=first)
        model = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        found.append(coverage(model, x if first else x.transpose(0, 1))[0])
    assert found[0].spectrum == pytest.approx(found[1].spectrum)
    assert (found[1].tokens, found[1].heads, found[1].head_dim) == (6, 3, 4)


def test_the_model_is_left_as_it_was() -> None:
    model = build(nearest_neighbor(16, 2, 4, 4, 32, tokens=50), seed=0).train()
    coverage(model, normal(4, 50, 16))
    assert model.training
    assert not any(module._forward_pre_hooks for module in model.modules())


# ---------------------------------------------------------------------------------------------------------- the command
def test_it_prints_every_layer_and_what_it_was_measured_on(tmp_path: Path) -> None:
    record.save(ORIGINALS["vit"], tmp_path / "vit.json")
    out = run(str(tmp_path / "vit.json"), "--head-dim", "2,4", "--batch", "4")
    assert out.count("blocks.") == 3
    assert "2 covers" in out
    assert "initial weights (seed 0) on 4 samples of noise" in out
    assert "Noise is not what the model is used on" in out
    assert "a larger --batch narrows this" in out


def test_for_machines_and_as_a_figure(tmp_path: Path) -> None:
    record.save(nearest_neighbor(16, 1, 4, 4, 32, tokens=50), tmp_path / "nn.json")
    picture = tmp_path / "rank.svg"
    options = ("--json", "--head-dim", "8", "--batch", "64", "--plot", str(picture))
    report = json.loads(run(str(tmp_path / "nn.json"), *options))
    assert (report["enough"], len(report["layers"])) == (0.9, 1)
    shares = report["layers"][0]["shares"]
    assert [share["head_dim"] for share in shares] == [4, 8]
    assert shares[1]["coverage"] == pytest.approx(0.5, abs=0.03)
    assert "<svg" in picture.read_text()


def test_attention_between_channels_is_left_out(tmp_path: Path) -> None:
    record.save(ORIGINALS["davit"], tmp_path / "davit.json")
    kinds = {
        layer["kind"] for layer in json.loads(run(str(tmp_path / "davit.json"), "--json", "--batch", "4"))["layers"]
    }
    assert kinds == {"window"}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("vit_b", "--head-dim", "x"), "--head-dim x"),
        (("vit_b", "--head-dim", "0"), "from 1 up"),
        (("vit_b", "--batch", "0"), "--batch 0"),
        (("vit_bb",), "did you mean"),
        (("vit_b", "--images", "a", "--text", "b"), "both given"),
    ],
)
def test_mistakes_are_told(args: tuple[str, ...], told: str) -> None:
    with pytest.raises(UserError, match=told):
        run(*args)
