"""A count is proved: parameters and operations of the record equal the built module's, group by group, on meta."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from torch.utils.flop_counter import FlopCounterMode

from manyheads.arch import zoo
from manyheads.arch.count import forward_flops, params
from manyheads.arch.redesign import redesign
from manyheads.models.build import build, groups
from manyheads.paper.audit import audit, likely
from manyheads.paper.rows import ROWS
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Token

from ..arch.random_records import FAMILIES
from .tiny import ORIGINALS, empty, variants


def counted(arch: Arch) -> None:
    """Build on meta; compare every group and the forward operations of one example."""
    model = build(arch, device="meta").eval()
    group = groups(model)
    found = Counter[str]()
    for name, parameter in model.named_parameters():
        found[group[name]] += parameter.numel()
    record = params(arch)
    for name in ("embedding", "attention", "mlp", "norm", "local", "head"):
        assert found[name] == getattr(record, name), name
    assert found.total() == record.total
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(*empty(arch))
    assert counter.get_total_flops() == forward_flops(arch)


@pytest.mark.parametrize("name", zoo.NAMES)
def test_zoo(name: str) -> None:
    arch = zoo.get(name)
    if arch.family == "llama":
        arch = redesign(arch, tokens=128)
    counted(arch)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.role == "lean" or row.model.name in ("ViT-L", "VOLO-d4")], ids=lambda row: row.id
)
def test_paper_rows(row) -> None:
    counted(likely(row).arch)


def test_every_reading_of_a_row_can_be_built() -> None:
    """Also those nobody believes: as stated, and the ones that print the same figure."""
    for item in audit():
        for reading in (*item.stated, *item.matches):
            model = build(reading.arch, device="meta")
            assert sum(p.numel() for p in model.parameters()) == reading.params


@pytest.mark.parametrize("name", ORIGINALS)
@pytest.mark.parametrize("variant", ["original", "fixed", "split"])
def test_tiny_twins(name: str, variant: str) -> None:
    counted(variants(name)[variant])


@pytest.mark.parametrize("family", FAMILIES)
def test_random_records(family: str) -> None:
    @given(FAMILIES[family]())
    @settings(max_examples=12)
    def prop(arch: Arch) -> None:
        if isinstance(arch.embed, Token) and arch.stages[0].width % 2 and arch.embed.sinusoid:
            return
        counted(arch)

    prop()
