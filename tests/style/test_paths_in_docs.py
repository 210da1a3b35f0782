"""Every file that a page of documentation names is there: a page that sends its reader to a moved file fails."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))]
# a path with at least one folder, in `code`, a link, or a block of commands
PATH = re.compile(r"(?<![\w./:~$<{*-])((?:[\w.-]+/)+[\w.-]+\.(?:py|md|js|css|svg|json|toml|cff))(?![\w/])")
MODULE = re.compile(r"(?<![\w.])manyheads(?:\.\w+)+")
FOLDER = re.compile(r"`((?:\w+/)+\w*)`")  # `conditioning/taps`, `paper/`
TOP = {"tests", "docs", "benchmarks", "evidence", "src"}
ROOMS = {folder.name for folder in (ROOT / "src/manyheads").iterdir() if folder.is_dir()}
READERS = {"runs"}  # a room of ours, and also the folder that a reader's own runs are in


def named(text: str) -> list[str]:
    """Paths in a page that belong to this repository; a reader's own folders, such as `runs/first`, do not."""
    files = [path for path in PATH.findall(text) if path.split("/")[0] in TOP | ROOMS]
    folders = [path for path in FOLDER.findall(text) if path.split("/")[0] in (TOP | ROOMS) - READERS]
    return files + folders


def exists(page: Path, path: str) -> bool:
    """Whether `path` is there, from the root, from the package, or from the page's own folder (a link)."""
    places = [base / path for base in (ROOT, ROOT / "src/manyheads", page.parent)]
    return any(place.exists() or place.with_suffix(".py").exists() for place in places)


@pytest.mark.parametrize("name", PAGES)
def test_every_file_that_a_page_names_exists(name: str) -> None:
    page = ROOT / name
    missing = sorted({path for path in named(page.read_text()) if not exists(page, path)})
    assert not missing, f"{name} names {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not there"


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    page = ROOT / name
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize("name", PAGES)
def test_every_module_that_a_page_names_exists(name: str) -> None:
    """`manyheads.interop.timm` is a file; the last word may also be a name in one (`manyheads.interop.hf.export`)."""
    missing = []
    for dotted in MODULE.findall((ROOT / name).read_text()):
        path = ROOT / "src" / dotted.replace(".", "/")
        home = path.parent.with_suffix(".py")
        inside = home.is_file() or (path.parent / "__init__.py").is_file()
        if not (path.is_dir() or path.with_suffix(".py").is_file() or (inside and len(dotted.split(".")) == 2)):
            word = path.name
            if not (home.is_file() and re.search(rf"\b{word}\b", home.read_text())):
                missing.append(dotted)
    assert not missing
