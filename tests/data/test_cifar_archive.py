"""CIFAR-10 is downloaded when asked for, from a server, checked, unpacked and read; whatever is wrong leaves nothing."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from manyheads.cli import main
from manyheads.data import cifar_archive, image_readers
from manyheads.data.cifar_archive import download_cifar
from manyheads.spec.errors import UserError
from tests.data.written import CIFAR_FILES, tiny_cifar


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small archive that stands for the official one."""
    path = tiny_cifar(tmp_path / "served")
    monkeypatch.setattr(cifar_archive, "RECORDS", 20)
    official(path, monkeypatch)
    return path


def official(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar_archive, "SIZE", path.stat().st_size)
    monkeypatch.setattr(cifar_archive, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())


class Quiet(SimpleHTTPRequestHandler):
    """A server of files that logs nothing."""

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def address(archive: Path) -> Iterator[str]:
    """Where a server on this machine has the archive."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(archive.parent)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def call(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main([*args])
    told = capsys.readouterr()
    return int(left.value.code or 0), " ".join((told.out + told.err).split())


def test_the_command_downloads_unpacks_and_is_done(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "data"
    code, said = call(capsys, "data", "cifar10", "--out", str(root), "--from", address)
    assert (code, said) == (0, str(root / "cifar-10-batches-bin"))
    assert sorted(path.name for path in (root / "cifar-10-batches-bin").iterdir()) == sorted(CIFAR_FILES)
    assert not list(tmp_path.rglob("elsewhere.bin"))
    train, test = image_readers.cifar10(root)
    assert (len(train.labels), len(test.labels)) == (100, 20)
    assert call(capsys, "data", "cifar10", "--out", str(root), "--from", "http://127.0.0.1:9")[0] == 0  # it is here


def test_a_run_downloads_what_it_needs(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MANYHEADS_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("MANYHEADS_CIFAR10", address)
    run = [
        "run",
        "fig3",
        "--scale",
        "small",
        "--arms",
        "L8_h2",
        "--seeds",
        "0",
        "--executor",
        "process",
        "--device",
        "cpu",
    ]
    few = ["--steps", "1", "--batch", "4", "--set", "recipe.probe_samples=2"]
    code, said = call(capsys, *run, *few)
    assert code == 2
    assert "CIFAR-10 is not at" in said
    assert "`manyheads data cifar10` downloads and unpacks it" in said
    assert not (tmp_path / "runs").exists()
    code, said = call(capsys, *run, *few, "--download", "--quiet")
    assert (code, "1 done" in said) == (0, True)


def test_an_archive_in_a_folder_is_taken_too(archive: Path, tmp_path: Path) -> None:
    assert download_cifar(tmp_path / "data", str(archive.parent)).name == "cifar-10-batches-bin"
    with pytest.raises(UserError, match=r"cannot be read: No such file.*write the folder that holds cifar-10-binary"):
        download_cifar(tmp_path / "other", str(tmp_path))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data[:-9], r"gave [\d,]+ of [\d,]+ bytes"),
        (lambda data: data + b"more", "gave more than"),
        (lambda data: data[:50] + bytes([data[50] ^ 1]) + data[51:], "is not CIFAR-10's official archive"),
    ],
    ids=("cut", "longer", "changed"),
)
def test_what_is_not_the_official_archive_is_refused_and_removed(
    change: object, words: str, address: str, archive: Path, tmp_path: Path
) -> None:
    archive.write_bytes(change(archive.read_bytes()))  # type: ignore[operator]
    with pytest.raises(UserError, match=words):
        download_cifar(tmp_path / "data", address)
    assert not [path for path in (tmp_path / "data").iterdir() if not path.name.startswith(".")]


def test_an_archive_without_a_file_is_refused(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cifar_archive, "TRAIN", (*cifar_archive.TRAIN, "data_batch_6.bin"))
    with pytest.raises(UserError, match=r"lacks data_batch_6\.bin"):
        download_cifar(tmp_path / "data", str(archive.parent))


@pytest.mark.parametrize(
    ("source", "words"), [("http://127.0.0.1:9", "cannot be fetched"), ("ftp://127.0.0.1", "no address of the web")]
)
def test_a_server_that_is_not_there_is_a_sentence(source: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=words):
        download_cifar(tmp_path, source)


def test_options_that_belong_to_other_sets_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, said = call(capsys, "data", "cifar10", "--train", "9")
    assert (code, "write no option but --out and --from" in said) == (2, True)
    code, said = call(capsys, "data", "listops", "--from", "http://127.0.0.1")
    assert (code, "listops is generated here" in said) == (2, True)
    code, said = call(capsys, "data", "cifar100")
    assert (code, "did you mean cifar10" in said) == (2, True)
