"""The page in a real browser: no errors, light and dark, sorting by keyboard, nothing wider than a phone."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from manyheads.report.page import write

from .made import comparison
from .test_page import FOUR, KNOWN, TOP1

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed here")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about a made-up comparison."""
    root = tmp_path_factory.mktemp("page")
    comparison(root / "runs", FOUR, "small", TOP1)
    write(root / "runs", root / "page.html", experiments=KNOWN)
    return root / "page.html"


def browse(file: Path, *options: str, then: str = "") -> tuple[str, str]:
    """The document after its script has run and `then` with it, and what the browser complained about."""
    if then:
        text = file.read_text().replace("</body>", f"<script>{then}</script></body>")
        file = file.with_name("driven.html")
        file.write_text(text)
    assert BROWSER is not None
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
         "--window-size=1200,900", f"--user-data-dir={file.parent / 'profile'}", *options, "--virtual-time-budget=2000",
         "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def answer(dom: str) -> object:
    """What a driving script left in the document's title."""
    found = re.search(r"<title>(.*?)</title>", dom)
    assert found is not None
    return json.loads(html.unescape(found[1]))


def test_it_opens_without_a_complaint(page: Path) -> None:
    dom, complaints = browse(page)
    assert "lean against original" in dom
    assert complaints == ""


def test_a_header_sorts_by_value_and_says_so(page: Path) -> None:
    script = """
      const head = [...document.querySelectorAll("th button")].find(b => b.textContent === "parameters");
      const names = () => [...head.closest("table").tBodies[0].rows].map(row => row.cells[0].textContent);
      const order = [names()];
      head.focus(); const focused = document.activeElement === head;
      head.click(); order.push(names(), head.closest("th").getAttribute("aria-sort"));
      head.click(); order.push(names()[0], head.closest("th").getAttribute("aria-sort"));
      document.title = JSON.stringify([focused, ...order]);"""
    focused, before, rising, word, first, other = answer(browse(page, then=script)[0])  # type: ignore[misc]
    assert focused
    assert before == ["original", "lean", "depth_only", "split"]
    assert rising == ["depth_only", "split", "lean", "original"]
    assert (word, first, other) == ("ascending", "original", "descending")


@pytest.mark.parametrize(("scheme", "dark"), [("0", True), ("1", False)])
def test_it_follows_the_readers_choice_of_light_or_dark(page: Path, scheme: str, dark: bool) -> None:
    script = """document.title = JSON.stringify([getComputedStyle(document.body).backgroundColor,
      getComputedStyle(document.body).color, getComputedStyle(document.querySelector("svg .line")).stroke]);"""
    dom, _ = browse(page, f"--blink-settings=preferredColorScheme={scheme}", then=script)
    back, ink, line = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in answer(dom))  # type: ignore[attr-defined]
    assert (back < ink) is dark
    assert abs(line - back) > 150  # lines can be told from the ground


def test_nothing_is_wider_than_a_phone(page: Path) -> None:
    framed = page.with_name("framed.html")
    inside = html.escape(page.read_text(), quote=True)
    framed.write_text(f"""<!doctype html><title>[]</title><iframe width=360 height=700 srcdoc="{inside}"></iframe><script>
      document.querySelector("iframe").addEventListener("load", event => {{
        const root = event.target.contentDocument.documentElement;
        const small = [...root.querySelectorAll("svg text")].map(t => t.getBoundingClientRect().height);
        document.title = JSON.stringify([root.scrollWidth, Math.min(...small)]); }});</script>""")
    width, smallest = answer(browse(framed)[0])  # type: ignore[misc]
    assert width <= 360
    assert smallest > 9  # pixels: what is written in a figure can be read


def test_everything_can_be_reached_by_keyboard(page: Path) -> None:
    script = """
      const reach = [...document.querySelectorAll("a, button, summary, [tabindex]")].filter(e => e.tabIndex >= 0);
      const scrolls = [...document.querySelectorAll("*")].filter(e => getComputedStyle(e).overflowX === "auto" &&
        e.tagName !== "PRE");
      const named = [...document.querySelectorAll("svg[role=img]")].every(e => e.querySelector("title").textContent);
      document.title = JSON.stringify([reach.length, scrolls.every(e => e.tabIndex === 0), named]);"""
    reachable, scrolls, named = answer(browse(page, then=script)[0])  # type: ignore[misc]
    assert reachable > 20
    assert scrolls
    assert named
