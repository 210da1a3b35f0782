"""A file of weights that is a program is never executed."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.interop.load import load
from manyheads.interop.no_pickle import FORBIDDEN, FORCED, weights_only
from manyheads.spec.errors import UserError


class Trap:
    """An object whose pickle makes a file where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = str(trace)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.trace,)


def trap(file: Path, trace: Path) -> None:
    """Weights as torch.save writes them. Reading them as weights alone ends with a TypeError, since an OrderedDict's
    state is no mapping there, and not with the refusal of a program, which comes after it."""
    harmless = b"\x80\x02ccollections\nOrderedDict\n)RN}\x86b0"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", harmless + pickle.dumps(Trap(trace), protocol=2)[2:])
        archive.writestr("archive/version", "3\n")


def test_weights_that_timm_would_load_once_more_by_an_unpickler_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timm = pytest.importorskip("timm", reason="timm is in the vision extra")
    name = "gcvit_xxtiny.in1k"  # timm has it from a URL
    cache = tmp_path / "hub" / "checkpoints"
    cache.mkdir(parents=True)
    trap(cache / Path(timm.get_pretrained_cfg(name).url).name, tmp_path / "ran")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"cannot load the weights of gcvit.*--random"):
        load(f"timm:{name}")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", [FORCED, FORBIDDEN])
def test_no_setting_of_pytorch_lets_a_program_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    torch.save(Trap(tmp_path / "ran"), tmp_path / "weights")
    with weights_only(), pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "weights", weights_only=False)
    assert not (tmp_path / "ran").exists()
    assert os.environ[name] == "1"
    assert {FORCED, FORBIDDEN} & os.environ.keys() == {name}
