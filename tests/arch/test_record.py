"""Saved records load for ever: golden files of each schema give the record they were written from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from manyheads.arch import families, zoo
from manyheads.arch.redesign import redesign
from manyheads.spec import serialise as record
from manyheads.spec.arch import SCHEMA, Arch

GOLDEN = Path(__file__).parent / "golden"
WRITTEN = {
    "vit_b": lambda: zoo.get("vit_b"),
    "vit_b_lean": lambda: redesign(zoo.get("vit_b"), depth=7, heads=16, mlp_dim=1536),
    "deit_ti_distilled": lambda: zoo.get("deit_ti_distilled"),
    "xcit_s12": lambda: zoo.get("xcit_s12"),
    "tnt_s_legacy": lambda: zoo.get("tnt_s_legacy"),
    "volo_d1": lambda: zoo.get("volo_d1"),
    "davit_t_lean": lambda: redesign(zoo.get("davit_t"), depth=(1, 1, 2, 1), heads=(3, 6, 24, 24), policy="split"),
    "crammed_bert": lambda: zoo.get("crammed_bert"),
    "bert_base": lambda: zoo.get("bert_base"),
    "gpt2_tinystories": lambda: zoo.get("gpt2_tinystories"),
    "llama_1b": lambda: zoo.get("llama_1b"),
    "qwen3_0.6b": lambda: zoo.get("qwen3_0.6b"),
    "gemma2_2b": lambda: families.gemma2(2304, 26, 8, 256, 9216, kv_heads=4),
    "pythia_160m": lambda: families.gpt_neox(768, 12, 12, 64, 3072, vocab=50_304, tokens=2048),
    "opt_125m": lambda: families.opt(768, 12, 12, 64, 3072),
    "nystromformer_retrieval": lambda: zoo.get("nystromformer_retrieval"),
    "nearest_neighbor": lambda: zoo.get("nearest_neighbor"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_golden_files_load(name: str) -> None:
    """Every file ever shipped as golden, schema by schema, loads as the same record."""
    files = sorted(GOLDEN.glob(f"schema*/{name}.json"))
    assert files, f"no golden file of {name}"
    for file in files:
        assert record.load(file) == WRITTEN[name]()


def test_the_current_schema_has_golden_files() -> None:
    """A schema that changes needs an upgrader and new golden files beside the old ones."""
    assert {file.stem for file in (GOLDEN / f"schema{SCHEMA}").glob("*.json")} == set(WRITTEN)
    assert set(record.UPGRADERS) == set(range(1, SCHEMA))


def test_an_older_schema_walks_through_its_upgraders(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a schema to come, today's file is upgraded on the way in."""
    seen = []

    def upgrade(data: dict) -> dict:
        seen.append(data["schema"])
        return data | {"schema": SCHEMA + 1}

    monkeypatch.setattr(record, "SCHEMA", SCHEMA + 1)
    monkeypatch.setitem(record.UPGRADERS, SCHEMA, upgrade)
    assert isinstance(record.load(GOLDEN / f"schema{SCHEMA}" / "vit_b.json"), Arch)
    assert seen == [SCHEMA]


def test_a_dialect_is_written_where_an_older_record_would_mean_another() -> None:
    """Records older than the field have the TinyStories dialect where GPT-2's head has a bias: they keep their text,
    and with it the ids of their runs."""
    stories, openai = zoo.get("gpt2_tinystories"), zoo.get("gpt2")
    assert (stories.dialect, openai.dialect) == ("stories", "")
    for arch, written in (
        (stories, False),
        (openai, False),
        (replace(stories, dialect=""), True),
        (replace(openai, dialect="stories"), True),
    ):
        assert ("dialect" in record.to_dict(arch)) == written
        assert record.arch_from_dict(record.to_dict(arch)) == arch


def test_saving_replaces_in_one_step(tmp_path: Path) -> None:
    """A file is either the old record or the new one, and nothing is left beside it."""
    target = tmp_path / "arch.json"
    record.save(zoo.get("vit_b"), target)
    record.save(zoo.get("vit_s"), target)
    assert record.load(target) == zoo.get("vit_s")
    assert list(tmp_path.iterdir()) == [target]
