"""A user's own module is read: whole where a record can say it, layer by layer elsewhere, and what is not read is
said."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from manyheads.arch.controls import depths, head_dims, heads, mlp_dims
from manyheads.arch.count import params
from manyheads.arch.redesign import redesign
from manyheads.conditioning.tap_table import Tap
from manyheads.interop.read_module import from_module
from manyheads.models.build import build
from manyheads.planner import Budget, Limits, plan
from manyheads.spec.arch import attentions
from manyheads.spec.errors import UserError
from tests.conditioning.others import make
from tests.models.tiny import ORIGINALS

WHOLE = ("timm ViT", "timm DeiT", "timm TNT", "timm VOLO", "timm DaViT", "transformers GPT-2", "transformers BERT")
# module -> depth, heads, head_dim, key heads, MLP
# fmt: off
LAYERS = {
    "nn.TransformerEncoder": (2, 4, 8, 4, 64),
    "nn.TransformerEncoder, tokens first": (2, 4, 8, 4, 64), "torchvision ViT": (2, 2, 16, 2, 64),
    "transformers Llama": (2, 4, 8, 2, 64), "transformers Qwen3": (2, 4, 16, 2, 64), "timm EVA": (2, 2, 16, 2, 128),
}
# fmt: on


@pytest.mark.parametrize("name", WHOLE)
def test_a_model_that_a_record_can_say_is_read_whole(name: str) -> None:
    pytest.importorskip(name.split()[0], reason="in the vision or hf extra")
    module, batch, _ = make(name)
    read = from_module(module, batch)
    assert read.exact
    assert read.unread == ()
    assert params(read.arch).total == sum(p.numel() for p in module.parameters())


def test_our_own_module_is_its_record() -> None:
    assert from_module(build(ORIGINALS["xcit"], device="meta"), None).arch == ORIGINALS["xcit"]


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_read_off_any_module(name: str) -> None:
    pytest.importorskip({"nn.TransformerEncoder": "torch"}.get(name.split(",")[0], name.split()[0]), reason="an extra")
    module, batch, _ = make(name)
    read = from_module(module, batch)
    depth, count, dim, kv, mlp = LAYERS[name]
    assert not read.exact
    assert read.arch.family == "stack"
    assert (depths(read.arch), heads(read.arch), head_dims(read.arch)) == ([depth], [count], [dim])
    assert mlp_dims(read.arch) == [mlp]
    op = read.arch.stages[0].unit[0][0].op  # type: ignore[union-attr,index]
    assert (op.kv_heads or op.heads) == kv  # type: ignore[union-attr]
    assert params(read.arch).total + read.rest.params == sum(p.numel() for p in module.parameters())
    assert any("norms" in text for text in read.unread)


def test_layers_that_were_read_can_be_built_and_redesigned() -> None:
    module, batch, _ = make("nn.TransformerEncoder")
    read = from_module(module, batch).arch
    for arch in (read, redesign(read, depth=1, heads=8)):
        model = build(arch, seed=0)
        assert sum(p.numel() for p in model.parameters()) == params(arch).total
        assert all(op.out_scale == 1 for op in attentions(arch.stages[0]))
        assert model(torch.randn(2, arch.stages[0].tokens, arch.stages[0].width)).isfinite().all()


def test_a_plan_counts_what_stands_beside_the_layers() -> None:
    module, batch, _ = make("torchvision ViT")
    read = from_module(module, batch)
    redesigns = plan(read.arch, Budget(params=0.8), Limits(mlp_multiple=8), rest=read.rest)
    whole = sum(p.numel() for p in module.parameters())
    assert redesigns.original.costs["params"] == whole
    assert redesigns.designs[0].costs["params"] <= 0.8 * whole
    assert redesigns.designs[0].costs["params"] > read.rest.params
    assert "for want of a usual recipe" in redesigns.designs[0].training.assumption


class Mine(nn.Module):
    """Attention that no table knows."""

    def __init__(self) -> None:
        super().__init__()
        self.proj_in, self.proj = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.proj(torch.chunk(self.proj_in(x), 3, dim=-1)[2])


def test_unknown_attention_can_be_named() -> None:
    model = nn.Sequential(nn.Sequential(*(Mine() for _ in range(3))))
    with pytest.raises(UserError, match="manyheads knows no attention"):
        from_module(model, torch.randn(2, 10, 32))
    read = from_module(model, torch.randn(2, 10, 32), taps={"0.*": Tap("proj", heads=4)})
    assert (depths(read.arch), heads(read.arch), head_dims(read.arch)) == ([3], [4], [8])
    assert any("0 MLPs are recognised" in text for text in read.unread)


def test_what_cannot_be_planned_says_why() -> None:
    pytest.importorskip("timm", reason="timm is in the vision extra")
    module, batch, _ = make("timm Swin")
    with pytest.raises(UserError, match=r"no softmax attention ran on this batch \(window did\)"):
        from_module(module, batch)
    module, batch, _ = make("timm XCiT")
    with pytest.raises(UserError, match="norms its class token alone"):
        from_module(module, batch)


def test_the_module_is_left_as_it_was() -> None:
    module, batch, _ = make("nn.TransformerEncoder")
    module.train()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    from_module(module, batch)
    assert module.training
    assert all(torch.equal(before[name], tensor) for name, tensor in module.state_dict().items())
    assert next(module.parameters()).device.type == "cpu"
