"""Every attention of every family is heard, where its heads are, and class attention is left out."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from manyheads.conditioning.attention_calls import multihead, recorded_calls
from manyheads.conditioning.attention_modules import watched
from manyheads.conditioning.probe import probe
from manyheads.conditioning.tap_table import TAPS, Tap
from manyheads.conditioning.taps import find
from manyheads.models.build import build
from manyheads.spec.arch import attentions
from manyheads.spec.errors import UserError
from manyheads.spec.parts import Nested
from tests.conditioning.others import CASES, make
from tests.models.tiny import ORIGINALS, inputs


@pytest.mark.filterwarnings("ignore::manyheads.conditioning.probe.LeftOut")
@pytest.mark.parametrize("name", CASES)
def test_every_attention_of_another_library_is_seen(name: str) -> None:
    model, batch, expected = make(name)
    sites = probe(model, batch)
    assert Counter(site.kind for site in sites) == Counter(expected)
    for site in sites:
        assert site.inner == site.heads * site.head_dim
        assert site.kappa >= 1


@pytest.mark.parametrize("name", ORIGINALS)
def test_every_attention_of_ours_is_seen(name: str) -> None:
    arch = ORIGINALS[name]
    sites = probe(build(arch, seed=0), inputs(arch))
    stated = [op for stage in arch.stages for _ in range(stage.depth) for op in attentions(stage)]
    nested = sum(stage.depth for stage in arch.stages for item in stage.unit if isinstance(item, Nested))
    outer = [site for site in sites if site.kind != "pixel"]
    assert [(site.heads, site.head_dim) for site in outer] == [(op.heads, op.head_dim) for op in stated]
    assert len(sites) - len(outer) == nested
    kinds = {
        "Softmax": "softmax",
        "CrossCovariance": "cross-covariance",
        "Outlook": "outlook",
        "Window": "window",
        "Channel": "channel",
        "Nystrom": "nystrom",
    }
    assert [site.kind for site in outer] == [kinds[type(op.mix).__name__] for op in stated]


@pytest.mark.parametrize("name", ["timm VOLO", "timm XCiT"])
def test_class_attention_is_known_and_left_out(name: str) -> None:
    model, batch, _ = make(name)
    assert sum(place.tap.kind == "class" for place in find(model)) == 2
    assert "class" not in {site.kind for site in probe(model, batch)}


@pytest.mark.parametrize(("name", "shape"), [("timm VOLO", (3, 16)), ("timm DaViT", (48, 16)), ("timm TNT", (48, 16))])
def test_grids_are_flattened_and_windows_are_matrices_of_their_own(name: str, shape: tuple[int, int]) -> None:
    model, batch, _ = make(name)
    site = probe(model, batch)[0]
    side = {"timm VOLO": 64, "timm DaViT": 16, "timm TNT": 16}[name]
    assert (site.matrices, site.inner, site.tokens) == (shape[0], {"timm TNT": 8}.get(name, 16), side)


@contextmanager
def slow_path() -> Iterator[None]:
    """Without the fast path of nn.TransformerEncoder, which calls no module and rounds differently."""
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


CALLED = [name for name in CASES if name.startswith(("timm", "transformers"))]


@pytest.mark.filterwarnings("ignore::manyheads.conditioning.probe.LeftOut")
@pytest.mark.parametrize("name", CASES)
def test_outputs_are_bit_equal_with_and_without_the_probe(name: str) -> None:
    model, batch, _ = make(name)
    model.eval()

    def outputs() -> list[torch.Tensor]:
        out = model(**batch) if isinstance(batch, dict) else model(batch)
        parts = [out] if isinstance(out, torch.Tensor) else list(dict(out).values())
        return [part for part in parts if isinstance(part, torch.Tensor)]

    with torch.no_grad(), slow_path():
        before = outputs()
        with watched(model, find(model)), recorded_calls(model, find(model)):
            during = outputs()
        probe(model, batch)
        after = outputs()
    assert before
    for first, second, third in zip(before, during, after, strict=True):
        assert torch.equal(first, second)
        assert torch.equal(first, third)


@pytest.mark.parametrize("name", CALLED)
def test_what_is_heard_is_what_the_output_projection_is_given(name: str) -> None:
    model, batch, _ = make(name)
    model.eval()
    places = [place for place in find(model) if place.output is not None]
    given: list[torch.Tensor] = []
    for place in places:
        at = place.tap.at if isinstance(place.tap.at, str) else place.tap.at[-1]
        at = at if name != "timm EVA, separate" else "norm"
        place.module.get_submodule(at).register_forward_pre_hook(lambda module, args: given.append(args[0]))
    with recorded_calls(model, places) as heard:
        _ = model(**batch) if isinstance(batch, dict) else model(batch)
    assert len(heard) == len(given)
    for entry, expected in zip(heard, given, strict=True):
        assert entry.heads is expected
        assert expected.shape[-1] % entry.place.heads == 0


@pytest.mark.parametrize("settings", [{}, {"batch_first": True}, {"kdim": 20, "vdim": 24}, {"bias": False}])
@pytest.mark.parametrize("masks", [(), ("key_padding_mask",), ("attn_mask",), ("key_padding_mask", "attn_mask")])
def test_heads_of_multihead_attention_give_its_output(settings: dict, masks: tuple[str, ...]) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(32, 4, **settings).eval().double()
    shape = (3, 10) if settings.get("batch_first") else (10, 3)
    q = torch.randn(*shape, 32, dtype=torch.float64)
    k, v = (torch.randn(*shape, settings.get(name, 32), dtype=torch.float64) for name in ("kdim", "vdim"))
    given = {"key_padding_mask": torch.arange(10).expand(3, 10) > 7, "attn_mask": torch.ones(10, 10).triu(1).bool()}
    kwargs = {name: given[name] for name in masks}
    heads, maps, values = multihead(module, (q, k, v), kwargs, weights=True)
    bias = 0 if module.out_proj.bias is None else module.out_proj.bias
    out = heads @ module.out_proj.weight.T + bias
    expected = module(q, k, v, **kwargs)[0]
    expected = expected if settings.get("batch_first") else expected.transpose(0, 1)
    torch.testing.assert_close(out, expected)
    own = values.unflatten(-1, (4, 8)).transpose(1, 2)  # maps times values are the heads
    torch.testing.assert_close((maps @ own).transpose(1, 2).flatten(2), heads)


def test_a_model_without_attention_is_an_error_that_says_how_to_name_sites() -> None:
    with pytest.raises(UserError, match=r'taps=\{"blocks\.\*\.attn": Tap\("proj", heads=8\)\}'):
        probe(nn.Sequential(nn.Linear(4, 4)), torch.randn(1, 4))


class Home(nn.Module):
    """Attention of a user's own making, unknown to the table."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.mixed = nn.Linear(16, 3 * 24), nn.Linear(24, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (3, 8)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        return self.mixed(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class SelfAttention(Home):
    """The same under a name that speaks of attention."""


def test_an_unknown_attention_is_named_in_the_error() -> None:
    with pytest.raises(UserError, match=r"0 is a .*SelfAttention"):
        probe(nn.Sequential(SelfAttention()), torch.randn(1, 10, 16))


def test_taps_name_what_the_table_does_not_know() -> None:
    model = nn.ModuleDict({"layers": nn.ModuleList([Home(), Home()])})
    model.forward = lambda x: model["layers"][1](model["layers"][0](x))
    sites = probe(model, torch.randn(2, 10, 16), taps={"layers.*": Tap("mixed", heads=3, kind="softmax")})
    assert [(site.name, site.layer, site.heads, site.head_dim) for site in sites] == [
        ("layers.0", 0, 3, 8),
        ("layers.1", 1, 3, 8),
    ]


@pytest.mark.parametrize(
    ("taps", "message"),
    [
        ({"blcks.*": Tap("proj", 2)}, "no such module"),
        ({"0": Tap("proj", 3)}, "listens to .*proj"),
        ({"0": Tap("mixed", 7)}, "7 heads do not divide"),
        ({"0": Tap((), 3)}, "listens to"),
        ({"0": Tap("mixed", "num_heads")}, "no such number"),
    ],
)
def test_a_wrong_tap_is_refused(taps: dict[str, Tap], message: str) -> None:
    with pytest.raises(UserError, match=message):
        probe(nn.Sequential(Home()), torch.randn(1, 10, 16), taps=taps)


def test_the_table_is_made_of_qualified_names_and_recognised_without_their_libraries() -> None:
    assert all(name.count(".") >= 2 for name in TAPS)
    code = "import sys, manyheads.conditioning.taps; print([m for m in ('timm', 'transformers') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("library", sorted({name.split(".")[0] for name in TAPS}))
def test_every_class_of_the_table_exists_in_its_library(library: str) -> None:
    pytest.importorskip(library, reason="needs the library whose classes the table names")
    moved = {"timm.models.vision_transformer.Attention"}  # another version's
    for name in TAPS:
        module, _, cls = name.rpartition(".")
        if module.split(".")[0] == library and name not in moved:
            assert issubclass(getattr(importlib.import_module(module), cls), nn.Module)
