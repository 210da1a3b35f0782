"""A result says where, when and on what data it was made, as far as anybody knows, and nothing is invented."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
import torch

import manyheads
from manyheads.data.image_readers import read
from manyheads.data.image_types import Pixels
from manyheads.spec.text import LanguageModel
from manyheads.tasks import Images, data_sha256, open_task
from manyheads.train.machine import commit
from tests.train.tiny import run_here, spec, steps

CPU = torch.device("cpu")


def test_a_result_says_when_and_by_what_code_it_was_made(tmp_path: Path) -> None:
    result = run_here(tmp_path / "a", spec(basis=steps(4)))
    machine, timing = result["machine"], result["timing"]
    assert machine["manyheads"] == manyheads.__version__
    assert machine["commit"] == commit()
    assert machine["cores"] >= 1
    assert datetime.now(UTC) - datetime.fromisoformat(timing["finished"]) < timedelta(minutes=5)
    assert timing["overhead"] >= 0
    assert result["data_sha256"] is None  # its samples are generated


def test_the_hash_of_the_data_is_that_of_all_of_it_and_of_nothing_else() -> None:
    works = [open_task(Images(limit=limit), CPU, seed, batch) for limit, seed, batch in ((50, 0, 8), (60, 1, 4))]
    first, second = map(data_sha256, works)
    assert first == second
    assert first is not None
    assert len(first) == 64
    train, held = read("fashion_mnist", Path())
    assert isinstance(train, Pixels)
    other = train.images.copy()
    other[-1, 0, 0, 0] ^= 1
    changed = replace(works[0], stored=(replace(train, images=other), held))
    moved = replace(works[0], stored=(replace(train, labels=np.roll(train.labels, 1)), held))
    assert len({first, data_sha256(changed), data_sha256(moved)}) == 3


def test_a_corpus_is_known_by_its_sources() -> None:
    work = open_task(LanguageModel(), CPU, 0, 2)
    known = data_sha256(work)
    assert known == data_sha256(open_task(LanguageModel(), CPU, 1, 4))
    corpus = work.corpus  # type: ignore[attr-defined]
    manifest = corpus.train.manifest
    source = replace(manifest.sources[0], sha256="0" * 64)
    train = replace(corpus.train, manifest=replace(manifest, sources=(source, *manifest.sources[1:])))
    assert data_sha256(replace(work, corpus=replace(corpus, train=train))) != known  # type: ignore[type-var]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with a package in it, committed, and an installed one, which git ignores."""
    if shutil.which("git") is None:
        pytest.skip("git is missing")
    for name in ("src/package", "venv/package"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / ".gitignore").write_text("venv/\n")
    person = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
    for command in (["init", "-q"], ["add", "."], [*person, "commit", "-qm", "Begin"]):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    return tmp_path


def test_the_commit_is_that_of_a_checkout_and_of_no_repository_around_it(checkout: Path) -> None:
    head = subprocess.run(["git", "-C", str(checkout), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    package = checkout / "src" / "package"
    assert commit(package) == head.stdout.strip()
    assert commit(checkout / "venv" / "package") is None
    assert commit(checkout / "src" / "absent") is None
    (package / "__init__.py").write_text("changed = True\n")
    commit.cache_clear()
    assert commit(package) == f"{head.stdout.strip()}-dirty"
