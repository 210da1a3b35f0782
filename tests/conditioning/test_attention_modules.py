"""Whatever attends and is not measured is named: in a warning, in the record, and with the reason."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from manyheads.conditioning.attention_modules import AttentionModule
from manyheads.conditioning.coverage import coverage
from manyheads.conditioning.probe import LeftOut, Sites, listeners, probe
from manyheads.conditioning.tap_table import Tap
from manyheads.interop.read_module import from_module
from manyheads.models.build import build
from manyheads.spec.errors import UserError
from tests.conditioning.others import images, make
from tests.models.tiny import ORIGINALS, inputs

Mix = Callable[[Tensor, Tensor, Tensor], Tensor]


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def by_function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.softmax(q @ k.mT, -1) @ v


def by_method(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(dim=3).matmul(v)


def batches_of_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Heads in the batch dimension, as fairseq has them: a softmax of three dimensions."""
    flat = [t.flatten(0, 1) for t in (q, k, v)]
    weights = F.dropout(torch.softmax(torch.bmm(flat[0], flat[1].mT), -1), 0.1, False)
    return torch.bmm(weights, flat[2]).view_as(q)


def with_einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.einsum("bhij,bhjd->bhid", torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1), v)


class Own(nn.Module):
    """Attention of a user's own making: no tap knows it, and its name does not speak of it."""

    def __init__(self, mix: Mix, heads: int = 2, queries: int | None = None) -> None:
        super().__init__()
        self.mix, self.heads, self.queries = mix, heads, queries
        self.a, self.b, self.c, self.back = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (self.a, self.b, self.c))
        q = q if self.queries is None else q[..., : self.queries, :]
        return x + self.back(self.mix(q, k, v).transpose(1, 2).flatten(2))


class Known(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x, x, x)[0]


MIXES = [fused, by_function, by_method, batches_of_heads, with_einsum]


def left_out(model: nn.Module, batch: Any) -> tuple[Sites, dict[str, AttentionModule]]:
    """The sites and what was left out, which the warning names too."""
    with pytest.warns(LeftOut) as caught:
        sites = probe(model, batch)
    text = " ".join(str(warning.message) for warning in caught)
    assert all(module.name in text and module.left_out in text for module in sites.left_out)
    return sites, {module.name: module for module in sites.left_out}


def test_five_own_attentions_beside_one_that_is_known_are_all_named() -> None:
    model = nn.Sequential(*(Own(mix) for mix in MIXES), Known())
    sites, out = left_out(model, torch.randn(2, 7, 16))
    assert [site.name for site in sites] == ["5.inner"]
    assert list(out) == ["0", "1", "2", "3", "4"]
    assert all("no tap knows its class" in module.left_out for module in out.values())
    assert all(module.module.endswith("Own") for module in out.values())


@pytest.mark.parametrize("mix", [fused, by_function, by_method, with_einsum])
def test_the_suggested_tap_measures_what_was_left_out(mix: Mix) -> None:
    model, x = nn.Sequential(Own(mix, heads=4), Known()), torch.randn(2, 7, 16)
    suggestion = left_out(model, x)[1]["0"].suggestion
    assert suggestion == '"0": Tap("back", heads=4)'
    sites = probe(model, x, taps={"0": Tap("back", heads=4)})
    assert [(site.name, site.heads) for site in sites] == [("0", 4), ("1.inner", 2)]
    assert not sites.left_out


def test_the_pooling_head_of_siglip_is_not_its_only_site() -> None:
    model, batch, _ = make("transformers SigLIP, images")
    sites, out = left_out(model, batch)
    assert [site.kind for site in sites] == ["softmax", "softmax"]
    assert "one query row" in out["head.attention"].left_out


class Wrapped(nn.Module):
    """Somebody's own module around a library's."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
        return self.model(pixel_values).last_hidden_state


def test_coverage_and_a_module_that_is_read_leave_one_query_row_out() -> None:
    model, batch, _ = make("transformers SigLIP, images")
    samples = {"pixel_values": torch.cat([batch["pixel_values"]] * 2)}
    assert [layer.name for layer in coverage(model, samples)] == [f"encoder.layers.{i}.self_attn" for i in range(2)]
    wrapped = Wrapped(model)  # by its own name the class is read as a whole, pooling head included
    assert "model.head.attention has one query row and stays as it is" in from_module(wrapped, batch).unread
    samples["pixel_values"][0] = torch.nan
    with pytest.raises(UserError, match="NaN or infinities"):
        coverage(model, samples)


@pytest.mark.parametrize("mix", [fused, by_function])
def test_one_query_row_is_left_out_whatever_the_class(mix: Mix) -> None:
    model, x = nn.Sequential(Known(), Own(mix, queries=1)), torch.randn(2, 7, 16)
    assert "one query row" in left_out(model, x)[1]["1"].left_out
    with pytest.warns(LeftOut, match="1 .*one query row"):
        sites = probe(model, x, taps={"1": Tap("back", heads=2)}, detail=True, jacobian=True)
    assert [site.name for site in sites] == ["0.inner"]


def test_class_attention_is_in_the_record_without_a_warning() -> None:
    arch = ORIGINALS["xcit"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sites = probe(build(arch, seed=0), inputs(arch))
    assert sites.left_out
    assert all(module.expected and "one query row" in module.left_out for module in sites.left_out)


@pytest.mark.parametrize("name", ORIGINALS)
def test_nothing_of_our_own_models_is_left_out_but_class_attention(name: str) -> None:
    sites = probe(build(ORIGINALS[name], seed=0), inputs(ORIGINALS[name]))
    assert all(module.expected for module in sites.left_out)
    assert len({module.name for module in sites.modules}) == len(sites.modules)


class Silent(Known):
    """Applies the output projection without calling it, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.quiet, self.idle = Own(fused), Own(fused)
        self.quiet.forward = lambda x: F.linear(x, self.quiet.back.weight)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.quiet(x))


def test_a_tapped_module_that_is_not_heard_says_why() -> None:
    with pytest.warns(LeftOut) as caught:
        sites = probe(Silent(), torch.randn(2, 7, 16), taps={name: Tap("back", heads=2) for name in ("quiet", "idle")})
    assert [(module.name, module.left_out) for module in sites.left_out] == [
        ("quiet", "it ran without calling back, its output projection"),
        ("idle", "it did not run on this batch"),
    ]
    assert "quiet" in str(caught[0].message)


class LinearAttention(nn.Module):
    """No softmax: only its name and its parts speak of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k, self.to_v, self.to_out = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = F.elu(self.to_q(x)) + 1, F.elu(self.to_k(x)) + 1, self.to_v(x)
        return self.to_out(q @ (k.mT @ v))


def test_attention_without_softmax_is_known_by_its_name() -> None:
    _, out = left_out(nn.Sequential(nn.Sequential(LinearAttention()), Known()), torch.randn(2, 7, 16))
    assert list(out) == ["0.0"]
    assert "named for attention" in out["0.0"].left_out


class Gated(nn.Module):
    """Softmaxes that are no attention: over channels, over classes, and of a mixture whose parts are parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.parts = nn.Linear(16, 5), nn.Parameter(torch.randn(5, 16))

    def forward(self, x: Tensor) -> Tensor:
        chosen = F.softmax(self.gate(x), -1) @ self.parts
        image = x.unflatten(-1, (4, 4)).softmax(1).flatten(2)
        return chosen + image * F.log_softmax(x, -1) * F.softmax(x, -1)


def test_other_softmaxes_are_no_attention() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not probe(nn.Sequential(Gated(), Known()), torch.randn(2, 7, 16)).left_out


def _convnext() -> tuple[nn.Module, Any]:
    from transformers import ConvNextConfig, ConvNextModel

    return ConvNextModel(ConvNextConfig(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)), {
        "pixel_values": images(32)
    }


def _timm_convnext() -> tuple[nn.Module, Any]:
    from timm.models.convnext import ConvNeXt

    return ConvNeXt(depths=(1, 1, 1, 1), dims=(8, 16, 16, 16), num_classes=5), images(32)


def _mamba() -> tuple[nn.Module, Any]:
    from transformers import MambaConfig, MambaModel

    config = MambaConfig(hidden_size=16, num_hidden_layers=2, state_size=4, vocab_size=50)
    return MambaModel(config), {"input_ids": torch.arange(8)[None]}


@pytest.mark.parametrize("made", [_convnext, _timm_convnext, _mamba])
def test_a_model_of_convolutions_or_state_spaces_is_told_that_it_has_no_attention(
    made: Callable[[], tuple[nn.Module, Any]],
) -> None:
    model, batch = made()
    with pytest.raises(UserError, match=f"this {type(model).__name__} has no attention"):
        probe(model, batch)
    assert listeners(model, batch) == ()


def test_a_model_of_unknown_attention_alone_is_an_error_that_names_it_and_a_tap() -> None:
    model, x = nn.Sequential(Own(fused)), torch.randn(2, 7, 16)
    with pytest.raises(UserError, match=r"0 \(.*Own\): no tap .*\"0\": Tap\(\"back\", heads=2\)"):
        probe(model, x)
    (module,) = listeners(model, x)
    assert (module.name, module.heads, module.listens) == ("0", 2, "")


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_either_implementation_of_transformers_is_seen_without_its_tap(
    implementation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from manyheads.conditioning import tap_table, taps

    model, batch, _ = make("transformers Llama")
    model.set_attn_implementation(implementation)
    table = {name: tap for name, tap in tap_table.TAPS.items() if "Llama" not in name}
    monkeypatch.setattr(taps, "TAPS", table)
    assert [(module.name, module.heads, module.suggestion) for module in listeners(model, batch)] == [
        (f"layers.{layer}.self_attn", 4, f'"layers.{layer}.self_attn": Tap("o_proj", heads=4)') for layer in range(2)
    ]


def test_watching_leaves_no_hook() -> None:
    model = nn.Sequential(Own(fused), Known())
    left_out(model, torch.randn(2, 7, 16))
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
