"""Every family, original and redesigned, behaves like a modern module."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch._dynamo.testing
from torch import nn
from torch.utils.checkpoint import checkpoint

from manyheads.models.build import build, initialise, materialise
from manyheads.models.store import load, save
from manyheads.spec.errors import UserError
from manyheads.spec.recipe import Rates

from .tiny import ORIGINALS, inputs, scalar, variants

families = pytest.mark.parametrize("name", ORIGINALS)
COMPILED = (
    "vit",
    "gpt2",
    "llama",
    "crammed_bert",
)  # the others by `make test-all`; XCiT to DaViT have tests of their own


@families
@pytest.mark.parametrize("variant", ["original", "fixed", "split"])
def test_trains_a_step_saves_and_reloads(name: str, variant: str, tmp_path: Path) -> None:
    arch = variants(name)[variant]
    model = build(arch, Rates(0.1, 0.1, 0.2), seed=0)
    batch = inputs(arch)
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    before = scalar(model, batch)
    before.backward()
    silent = [n for n, p in model.named_parameters() if p.grad is None]
    assert not silent, f"no gradient reaches {silent}"
    optimizer.step()
    model.eval()
    save(model, tmp_path / "model")
    again = load(tmp_path / "model").eval()
    assert again.arch == arch
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values(), strict=True))
    with torch.no_grad():
        assert torch.equal(model(*batch), again(*batch))


@families
def test_weights_depend_on_the_seed_alone(name: str) -> None:
    arch = ORIGINALS[name]
    state = torch.get_rng_state()
    a, b, c = (build(arch, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    assert any(not torch.equal(p, q) for p, q in zip(a.parameters(), c.parameters(), strict=True))


@families
def test_initialisation_reaches_every_tensor(name: str) -> None:
    """Memory full of NaN before, none after: nothing is left as it was found."""
    model = build(variants(name)["fixed"], seed=0)
    for tensor in (*model.parameters(), *model.buffers()):
        if tensor.is_floating_point():
            tensor.data.fill_(float("nan"))
    for part in model.modules():
        getattr(part, "reset", lambda: None)()
    initialise(model, seed=0)
    left = [n for n, t in (*model.named_parameters(), *model.named_buffers()) if not torch.isfinite(t).all()]
    assert not left


@families
def test_meta_then_materialise_is_the_same_model(name: str) -> None:
    arch = ORIGINALS[name]
    model = build(arch, device="meta")
    assert all(t.device.type == "meta" for t in (*model.parameters(), *model.buffers()))
    made = materialise(model, "cpu", seed=5).eval()
    direct = build(arch, seed=5).eval()
    with torch.no_grad():
        assert torch.equal(made(*inputs(arch)), direct(*inputs(arch)))


@pytest.mark.unchecked
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in COMPILED else pytest.mark.slow) for name in ORIGINALS]
)
def test_compiles_in_one_graph_and_never_again(name: str) -> None:
    arch = ORIGINALS[name]
    model = build(arch, Rates(path=0.1), seed=0)
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(3):
        scalar(compiled, inputs(arch)).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert counter.frame_count == 1
    model.eval()
    with torch.no_grad():
        expected = model(*inputs(arch))
    torch._dynamo.reset()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="aot_eager")(*inputs(arch)), expected)


@pytest.mark.unchecked
@families
def test_exports(name: str) -> None:
    arch = ORIGINALS[name]
    model = build(arch, seed=0).eval()
    batch = inputs(arch)
    exported = torch.export.export(model, batch, strict=False)
    with torch.no_grad():
        torch.testing.assert_close(exported.module()(*batch), model(*batch))


@families
def test_bf16_autocast_stays_close_and_finite(name: str) -> None:
    arch = ORIGINALS[name]
    model = build(arch, seed=0)
    model.eval()
    batch = inputs(arch)
    exact = model(*batch)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = model(*batch)
        loss = rough.float().pow(2).mean()
    loss.backward()
    assert torch.isfinite(rough).all()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert (rough.float() - exact).abs().max() < 0.1 * exact.abs().max().clamp_min(1.0)


@families
def test_activation_checkpointing_changes_nothing(name: str) -> None:
    arch = ORIGINALS[name]
    model = build(arch, seed=0).double()
    batch = inputs(arch, dtype=torch.float64)
    plain = torch.autograd.grad(scalar(model, batch), list(model.parameters()))
    wrapped = torch.autograd.grad(
        checkpoint(lambda *b: scalar(model, b), *batch, use_reentrant=False), list(model.parameters())
    )
    for a, b in zip(plain, wrapped, strict=True):
        torch.testing.assert_close(a, b)


@families
def test_noise_is_for_training_only(name: str) -> None:
    arch = ORIGINALS[name]
    quiet, noisy = build(arch, seed=0).eval(), build(arch, Rates(0.3, 0.3, 0.3), seed=0)
    batch = inputs(arch)
    with torch.no_grad():
        assert torch.equal(quiet(*batch), noisy.eval()(*batch))
        noisy.train()
        assert not torch.equal(noisy(*batch), noisy(*batch))


@families
def test_every_block_keeps_its_part_of_the_record(name: str) -> None:
    """The specs met in the module are those of the record, attention for attention."""
    from manyheads.spec.arch import attentions
    from manyheads.spec.parts import Attention

    arch = variants(name)["fixed"]
    found = [m.spec for m in build(arch, device="meta").modules() if isinstance(getattr(m, "spec", None), Attention)]
    expected = [op for stage in arch.stages for _ in range(stage.depth) for op in attentions(stage)]
    outer = [spec for spec in found if spec in expected]
    assert outer == expected


def test_rates_are_rates() -> None:
    with pytest.raises(ValueError, match="path is 1\\.5"):
        Rates(path=1.5)


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("name", "batch", "says"),
    [
        ("vit", (torch.zeros(1, 3, 40, 40),), "images are 1x3x40x40; this model takes batch x 3 x 32 x 32"),
        ("davit", (torch.zeros(1, 1, 64, 64),), "this model takes batch x 3 x 64 x 64"),
        ("gpt2", (torch.zeros(1, 17, dtype=torch.long),), "17 tokens; this model has positions for 16"),
        ("crammed_bert", (torch.zeros(1, 13, dtype=torch.long),), "13 tokens; this model has positions for 12"),
        ("gpt2", (torch.full((1, 4), 50),), "token ids run from 50 to 50; this model's vocabulary is 0 to 49"),
        ("bert", (torch.full((1, 4), -1),), "token ids run from -1"),
        ("llama", (torch.zeros(1, 4),), "takes whole numbers"),
    ],
)
def test_bad_input_is_a_sentence_with_its_numbers(name: str, batch: tuple, says: str) -> None:
    with pytest.raises(UserError, match=says):
        build(ORIGINALS[name], seed=0)(*batch)


class TestStore:
    """A folder that is not what it should be is refused with a sentence."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        save(build(ORIGINALS["vit"], seed=0), tmp_path)
        return tmp_path

    def test_truncated(self, folder: Path) -> None:
        weights = folder / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
        with pytest.raises(UserError, match="is damaged or no safetensors file"):
            load(folder)

    def test_foreign(self, folder: Path) -> None:
        (folder / "model.safetensors").write_text("hello")
        with pytest.raises(UserError, match="is damaged or no safetensors file"):
            load(folder)

    def test_missing(self, folder: Path) -> None:
        (folder / "model.safetensors").unlink()
        with pytest.raises(UserError, match="does not exist"):
            load(folder)

    def test_weights_of_another_arch(self, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
        other = tmp_path_factory.mktemp("other")
        save(build(variants("vit")["fixed"], seed=0), other)
        (other / "model.safetensors").replace(folder / "model.safetensors")
        with pytest.raises(UserError, match=r"another architecture .*blocks.2.*\(96, 32\) here"):
            load(folder)

    def test_another_image_size(self, folder: Path) -> None:
        model = load(folder, image=64)
        assert model.arch.stages[0].tokens == 65
        assert model(torch.zeros(1, 3, 64, 64)).shape == (1, 7)

    def test_an_interrupted_save_leaves_the_model_before_it(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        import manyheads.models.store as store

        first = load(folder)

        def broken(*args: object, **kwargs: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(store, "save_file", broken)
        with pytest.raises(UserError, match="No space left"):
            save(build(ORIGINALS["vit"], seed=9), folder)
        again = load(folder)
        assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))


def test_the_model_is_a_plain_module() -> None:
    assert isinstance(build(ORIGINALS["vit"], device="meta"), nn.Module)
