"""No tracked file names a folder of one machine or the host of a package registry."""

from __future__ import annotations

import subprocess
from pathlib import Path

# Joined here, so that this file does not hold what it looks for.
FOLDERS = [f"/{name}/" for name in ("work", "root")]
HOSTS = [".".join(parts) for parts in (("registry", "npmjs"), ("deb", "debian"))] + ["python" + "hosted"]


def kept(root: Path) -> list[Path]:
    """Files git tracks, and those it would track if they were added."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := root / name).is_file()]


def test_tracked_files_name_no_machine_and_no_registry(root: Path) -> None:
    found = [
        f"{path.relative_to(root)}: {pattern}"
        for path in kept(root)
        for pattern in FOLDERS + HOSTS
        if pattern.encode() in path.read_bytes()
    ]
    assert not found, "\n".join(found)


def test_constraints_are_exact_pins_and_nothing_else(root: Path) -> None:
    lines = (root / "constraints.txt").read_text().splitlines()
    loose = [line for line in lines if line.count("==") != 1 or set("/@; ") & set(line)]
    assert lines
    assert not loose
