"""The wheel holds the package and nothing else, and a core-only environment can use it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONSTRAINTS = ROOT / "constraints.txt"
DATA = {  # every file in the wheel that is neither Python nor metadata
    "manyheads/py.typed",
    "manyheads/data/fashion_mnist/LICENSE",
    "manyheads/data/fashion_mnist/NOTICE",
    "manyheads/data/fashion_mnist/train-images-idx3-ubyte.xz",
    "manyheads/data/fashion_mnist/train-labels-idx1-ubyte.xz",
    "manyheads/data/fashion_mnist/t10k-images-idx3-ubyte.xz",
    "manyheads/data/fashion_mnist/t10k-labels-idx1-ubyte.xz",
    "manyheads/data/text/stories/LICENSE",
    "manyheads/data/text/stories/NOTICE",
    "manyheads/data/text/stories/tokenizer.json",
    "manyheads/data/text/stories/train/manifest.json",
    "manyheads/data/text/stories/train/shard-000000.bin.xz",
    "manyheads/data/text/stories/valid/manifest.json",
    "manyheads/data/text/stories/valid/shard-000000.bin.xz",
    "manyheads/report/explorer.js",
    "manyheads/report/explorer_rules.js",
    "manyheads/report/figure.css",
    "manyheads/report/page.css",
    "manyheads/report/page.js",
}


def call(*command: object, cwd: Path | None = None) -> str:
    """Output of a command that has to succeed."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def fresh(folder: Path) -> Path:
    """Folder of the programs of a new, empty environment."""
    call(sys.executable, "-m", "venv", folder)
    return folder / ("Scripts" if sys.platform == "win32" else "bin")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    download = [sys.executable, "-m", "pip", "download", "--no-cache-dir", "--no-deps", "--dest", folder / "probe"]
    if subprocess.run([*download, "mdurl"], capture_output=True).returncode:
        pytest.skip("pip reaches no package registry: neither build backend nor dependencies can be fetched")
    call(sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        metadata = archive.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    info = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    source = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert names - info == source | DATA
    assert {name.split("/", 1)[1] for name in info} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        "licenses/LICENSE",
    }
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata


def test_light_commands_run_with_the_wheel_but_without_torch(wheel: Path, tmp_path: Path) -> None:
    programs = fresh(tmp_path / "venv")
    pip = [programs / "python", "-m", "pip", "install", "--quiet"]
    call(*pip, "-c", CONSTRAINTS, "typer", "rich")
    call(*pip, "--no-deps", wheel)
    for command in (["--help"], ["zoo"], ["shape", "vit_b", "--depth", "7", "--heads", "16"], ["audit"]):
        assert call(programs / "manyheads", *command, cwd=tmp_path).strip()
    assert call(programs / "python", "-m", "manyheads", "zoo", cwd=tmp_path).strip()
    installed = call(programs / "python", "-m", "pip", "list", "--format", "freeze")
    assert "manyheads==" in installed
    assert "torch" not in installed
    assert "numpy" not in installed


@pytest.mark.slow
def test_plain_pip_install_brings_the_core_and_only_the_core(wheel: Path, tmp_path: Path) -> None:
    programs = fresh(tmp_path / "venv")
    call(programs / "python", "-m", "pip", "install", "--quiet", wheel)
    call(programs / "python", "-c", "import manyheads, torch", cwd=tmp_path)
    assert call(programs / "manyheads", "zoo", cwd=tmp_path).strip()
    installed = call(programs / "python", "-m", "pip", "list", "--format", "freeze")
    assert not [name for name in ("timm==", "transformers==", "matplotlib==") if name in installed]
