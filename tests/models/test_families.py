"""A family that was added halfway is told what it lacks: this list, and no other, is what CONTRIBUTING calls adding a
model."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

from manyheads.arch import families as constructors
from manyheads.arch import zoo
from manyheads.conditioning.taps import find
from manyheads.models import build as building
from manyheads.models import twins
from manyheads.report import explorer
from manyheads.spec import arch as records
from manyheads.spec.arch import Arch, attentions, editable
from manyheads.spec.errors import UserError
from tests.arch.random_records import FAMILIES as RANDOM
from tests.arch.test_record import WRITTEN

from .tiny import ORIGINALS

TESTS = Path(__file__).parents[1]


def missing(family: str) -> list[str]:
    """What a family of `spec.arch.FAMILIES` still lacks. Families of one module (DeiT's is ViT's) share its tests."""
    named = [zoo.get(name) for name in zoo.NAMES if zoo.get(name).family == family]
    tiny = [arch for arch in ORIGINALS.values() if arch.family in kin(family)]
    lacking = {
        f"arch/families.py: a constructor {family}(), or arch/zoo.py: a named size": not named
        and not hasattr(constructors, family),
        f"models/build.py: MODELS[{family!r}], its file and class": not builds(family),
        f"models/twins: TWINS[{family!r}], its maps to library weights, or () for none": family not in twins.TWINS,
        "tests/models/tiny.py: a small record in ORIGINALS": not tiny,
        "tests/arch/random_records.py: random records in FAMILIES": not kin(family) & set(RANDOM),
        "tests/arch/test_record.py: a golden record in WRITTEN": not any(
            written().family in kin(family) for written in WRITTEN.values()
        ),
        "report/explorer.py: a named size in MODELS": any(len(editable(arch)) == 1 for arch in named)
        and not any(zoo.get(name).family in kin(family) for name in explorer.MODELS),
        "conditioning/tap_table.py: a tap for its attention": bool(tiny)
        and builds(family)
        and not all(map(tapped, tiny)),
    }
    parity = "".join(path.read_text() for path in (TESTS / "parity").glob("test_*.py"))
    for name in twins.TWINS.get(family, ()):
        file, _, function = name.partition(".")
        lacking[f"models/twins/{file}.py: its map, {function}()"] = not hasattr(twin_maps(file), function)
        lacking[f"tests/parity: a test that uses {name}"] = name not in parity
    return [piece for piece, lacks in lacking.items() if lacks]


def twin_maps(file: str) -> object:
    """The module of weight maps of that name, or nothing."""
    try:
        return import_module(f"manyheads.models.twins.{file}")
    except ModuleNotFoundError:
        return None


def builds(family: str) -> bool:
    """Whether the family's module is there."""
    if family not in building.MODELS:
        return False
    file, name = building.MODELS[family]
    try:
        return hasattr(import_module(f"manyheads.models.{file}"), name)
    except ModuleNotFoundError:
        return False


def kin(family: str) -> set[str]:
    """The families that are built by the same module, this one included."""
    module = building.MODELS.get(family)
    return {family} | {other for other, theirs in building.MODELS.items() if theirs == module}


def tapped(arch: Arch) -> bool:
    """Whether every attention that a redesign may change is listened to."""
    there = sum(stage.depth * len(attentions(stage)) for stage in arch.stages)
    return len(find(building.build(arch, device="meta"))) >= there


@pytest.mark.parametrize("family", records.FAMILIES)
def test_no_family_is_added_halfway(family: str) -> None:
    lacking = missing(family)
    assert not lacking, f"family {family!r} lacks:\n  " + "\n  ".join(lacking)


# functions that several maps share
HELPERS = {
    "timm_vit.rows",
    "timm_maps.tensors_of",
    "hf_decoders.decoder",
    "hf_decoders.norm",
    "hf_maps.encoder",
    "hf_vision_maps.tower",
    "hf_vision_maps.vit_head",
    "hf_vision_maps.vit_layers",
}


def test_nothing_is_registered_for_a_family_that_is_not_there() -> None:
    assert set(building.MODELS) == set(twins.TWINS) == set(records.FAMILIES)
    maps = {
        f"{file}.{name}"
        for file in ("timm_vit", "timm_maps", "hf_maps", "hf_decoders", "hf_text_maps", "hf_vision_maps")
        for name, map_ in vars(twin_maps(file)).items()
        if isinstance(map_, FunctionType) and map_.__module__.endswith(file) and not name.startswith(("_", "tied"))
    } - HELPERS
    assert {name for names in twins.TWINS.values() for name in names} == maps


def test_a_family_added_halfway_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="family 'retnet' is not known"):
        replace(zoo.get("gpt2"), family="retnet")
    monkeypatch.setitem(records.FAMILIES, "retnet", records.Family("RetNet"))
    made = replace(zoo.get("gpt2"), family="retnet")
    tests = [
        "tests/models/tiny.py: a small record in ORIGINALS",
        "tests/arch/random_records.py: random records in FAMILIES",
        "tests/arch/test_record.py: a golden record in WRITTEN",
    ]
    assert missing("retnet") == [
        "arch/families.py: a constructor retnet(), or arch/zoo.py: a named size",
        "models/build.py: MODELS['retnet'], its file and class",
        "models/twins: TWINS['retnet'], its maps to library weights, or () for none",
        *tests,
    ]

    monkeypatch.setattr(constructors, "retnet", lambda: made, raising=False)
    monkeypatch.setitem(building.MODELS, "retnet", ("retnet", "RetNet"))
    monkeypatch.setitem(twins.TWINS, "retnet", ("hf_maps.retnet",))
    assert missing("retnet") == [
        "models/build.py: MODELS['retnet'], its file and class",
        *tests,
        "models/twins/hf_maps.py: its map, retnet()",
        "tests/parity: a test that uses hf_maps.retnet",
    ]

    monkeypatch.setitem(building.MODELS, "retnet", ("gpt2", "GPT2"))  # a module that others share, and its tests
    monkeypatch.setitem(twins.TWINS, "retnet", ())
    assert missing("retnet") == []
    monkeypatch.setitem(building.MODELS, "gpt2", ("gpt2", "Other"))
    assert missing("retnet") == tests


def test_a_named_size_has_to_be_in_the_explorer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "MODELS", ("gpt2",))
    assert missing("llama") == ["report/explorer.py: a named size in MODELS"]
    assert missing("davit") == []  # of four stages: the explorer's dials are for one
