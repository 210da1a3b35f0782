"""A model on the disk is whole, or the one before; it may be read by whoever may read the files beside it."""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from manyheads.models import store
from manyheads.models.build import build
from manyheads.spec.errors import UserError
from tests.models.tiny import ORIGINALS


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_weights_have_the_mode_of_the_record_beside_them(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        store.save(build(ORIGINALS["gpt2"], seed=0), tmp_path)
        store.save(build(ORIGINALS["gpt2"], seed=0), tmp_path)
    finally:
        os.umask(before)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == dict.fromkeys(
        ("arch.json", "model.safetensors"), 0o666 & ~mask
    )


def test_a_full_disk_keeps_the_model_before(tmp_path: Path) -> None:
    store.save(build(ORIGINALS["gpt2"], seed=0), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    other = build(ORIGINALS["gpt2"], seed=1)
    child = os.fork()
    if child == 0:  # no file of the child can become larger than a part of the weights
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))
            store.save(other, tmp_path)
        except UserError as error:
            told = str(error).encode()
            os._exit(3 if b"model.safetensors cannot be written: File too large; what was" in told else 4)
        except BaseException:
            os._exit(5)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    kept = store.load(tmp_path).state_dict()
    assert all(
        torch.equal(tensor, kept[name]) for name, tensor in build(ORIGINALS["gpt2"], seed=0).state_dict().items()
    )


def test_a_place_where_no_folder_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(UserError, match="file/model cannot be written: Not a directory"):
        store.save(build(ORIGINALS["gpt2"], seed=0), tmp_path / "file" / "model")


@pytest.mark.parametrize("depth", [10**6, 10**14])
def test_a_model_that_no_machine_holds_is_refused_before_it_is_built(depth: int) -> None:
    arch = ORIGINALS["nearest_neighbor"]
    with pytest.raises(UserError, match="layers; models of up to"):
        build(replace(arch, stages=(replace(arch.stages[0], depth=depth),)))
    with pytest.raises(UserError, match=r"parameters in .* layers"):
        build(replace(ORIGINALS["gpt2"], embed=replace(ORIGINALS["gpt2"].embed, vocab=10**14)))
