"""The page in a real browser: no errors, light and dark, keyboard, phone, sorting, saving, and an explorer that
moves."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from manyheads.arch.count import forward_flops, params, training_bytes
from manyheads.conditioning.theory import gaussian_log_kappa
from manyheads.experiments.registry import EXPERIMENTS
from manyheads.report.claims_table import claims_table, evidence
from manyheads.report.page import write
from manyheads.report.read_runs import read_runs
from manyheads.report.section_html import arms_table
from manyheads.report.tables import csv_rows
from manyheads.spec.arch import editable

from .browser import CHROMIUM, Browser
from .made import comparison, quick
from .test_explorer import built, turned
from .test_figures import grid, made
from .test_page import FOUR, KNOWN, TOP1

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="a page is opened in Chromium; none is installed here")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page about a made-up comparison, a made-up grid, and a folder that cannot be read."""
    root = tmp_path_factory.mktemp("page")
    comparison(root / "runs", FOUR, "small", TOP1)
    made(root / "runs", GRID)
    (root / "runs" / "else").mkdir()
    (root / "runs" / "else" / "metrics.jsonl").write_text("{}\n")
    write(root / "runs", root / "page.html", experiments=BOTH)
    return root / "page.html"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    started = Browser(tmp_path_factory.mktemp("profile"))
    yield started
    started.close()


GRID = grid(L4_h2=0.55, L2_h8=0.6)
BOTH = KNOWN | {"grid": GRID}
HEAD = """[...document.querySelectorAll(".table th button")].find(b => b.textContent === "parameters")"""
NAMES = f"[...{HEAD}.closest('table').tBodies[0].rows].map(row => row.cells[0].textContent)"
COSTS = """Object.fromEntries([...document.querySelectorAll("#x-costs tbody tr")].map(
  row => [row.dataset.cost, row.cells[1].textContent]))"""
CODES = """[...document.querySelectorAll("#x-warnings li")].map(item => item.dataset.code ?? "none")"""


def test_it_opens_without_a_complaint(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.complaints == []
    headings = browser.run("return [...document.querySelectorAll('h2')].map(h => h.textContent.trim())")
    assert headings == ["Claims", "demo small", "grid small", "Design explorer", "Folders that cannot be read"]
    targets = browser.run("""return [...document.querySelectorAll(".toc a")].map(
      a => document.querySelector(a.getAttribute("href")) !== null)""")
    assert targets == [True] * 5


def test_a_header_sorts_by_keyboard_and_by_mouse_and_says_so(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.run(f"return {NAMES}") == ["original", "lean", "depth_only", "split"]
    browser.run(f"{HEAD}.focus()")
    browser.press("Enter")
    assert browser.run(f"return {NAMES}") == ["depth_only", "split", "lean", "original"]
    assert browser.run(f"return {HEAD}.closest('th').getAttribute('aria-sort')") == "ascending"
    browser.run(f"{HEAD}.id = 'wanted'")
    browser.click("#wanted")
    assert browser.run(f"return [{NAMES}[0], {HEAD}.closest('th').getAttribute('aria-sort')]") == [
        "original",
        "descending",
    ]


def test_empty_cells_sort_last_both_ways(browser: Browser, page: Path) -> None:
    browser.open(page)
    found = browser.run("""
      const head = [...document.querySelectorAll("#main .table th button")].find(b => b.textContent === "why");
      const table = head.closest("table"), seeds = [...table.tHead.rows[0].cells].findIndex(c => c.textContent === "seeds");
      table.tBodies[0].rows[1].cells[seeds].textContent = "";
      const button = table.tHead.rows[0].cells[seeds].querySelector("button"), last = [];
      for (const _ of [0, 1]) { button.click(); last.push([...table.tBodies[0].rows].at(-1).cells[seeds].textContent); }
      return last;""")
    assert found == ["", ""]


@pytest.mark.parametrize("dark", [True, False])
def test_it_follows_the_readers_choice_of_light_or_dark(browser: Browser, page: Path, dark: bool) -> None:
    browser.open(page, dark=dark)
    found = browser.run("""return [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
      getComputedStyle(document.querySelector("svg .line")).stroke];""")
    back, ink, line = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in found)
    assert (back < ink) is dark
    assert abs(line - back) > 150  # lines can be told from the ground


def test_nothing_is_wider_than_a_phone(browser: Browser, page: Path) -> None:
    browser.open(page, width=360, height=740, phone=True)
    width, smallest, outside = browser.run("""
      const texts = [...document.querySelectorAll("svg.plot text")].map(t => t.getBoundingClientRect().height);
      const scrolls = e => e.closest(".wide, pre") !== null;
      const wide = [...document.querySelectorAll("main *")].filter(e => !scrolls(e) && !e.closest("svg") &&
        e.getBoundingClientRect().right > 361).map(e => e.outerHTML.slice(0, 80));
      return [document.documentElement.scrollWidth, Math.min(...texts), wide];""")
    assert width <= 360
    assert outside == []
    assert smallest > 9  # pixels: what is written in a figure can be read


def test_nothing_written_in_a_figure_covers_another_or_lies_outside(
    browser: Browser, page: Path, tmp_path: Path
) -> None:
    """On the page and on one where the names of several arms want the same row, just above the axis."""
    quick(tmp_path / "runs", EXPERIMENTS["rank_positions"], "smoke", lambda spec: 0.5 + 0.1 * (spec.label["order"] > 2))
    write(tmp_path / "runs", tmp_path / "page.html")
    for one in (page, tmp_path / "page.html"):
        browser.open(one)
        plots, covered = browser.run("""const found = [], plots = [...document.querySelectorAll("svg.plot")];
          for (const plot of plots) {
            const frame = plot.getBoundingClientRect();
            const texts = [...plot.querySelectorAll("text")].map(e => [e.textContent, e.getBoundingClientRect()]);
            texts.forEach(([name, a], i) => {
              if (a.left < frame.left - 1 || a.right > frame.right + 1) found.push(name);
              for (const [other, b] of texts.slice(0, i))
                if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
                  found.push(`${plot.closest("figure").dataset.name}: ${other} and ${name}`);
            });
          } return [plots.length, found];""")
        assert plots > 5
        assert covered == []


def test_everything_can_be_reached_by_keyboard_and_has_a_name(browser: Browser, page: Path) -> None:
    browser.open(page)
    reach, scrolls, named, labelled = browser.run("""
      const reach = [...document.querySelectorAll("a, button, summary, input, select, [tabindex]")]
        .filter(e => e.tabIndex >= 0);
      const scrolls = [...document.querySelectorAll("*")].filter(e => getComputedStyle(e).overflowX === "auto" &&
        e.tagName !== "PRE");
      const named = [...document.querySelectorAll("svg[role=img]")].every(e => e.querySelector("title")?.textContent ||
        e.getAttribute("aria-label") || document.getElementById(e.getAttribute("aria-labelledby"))?.textContent);
      const inputs = [...document.querySelectorAll("input, select")].every(e => e.labels.length ||
        e.getAttribute("aria-label"));
      return [reach.length, scrolls.every(e => e.tabIndex === 0), named, inputs];""")
    assert reach > 60
    assert scrolls
    assert named
    assert labelled


def test_a_legend_singles_out_one_arm(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.click(".legend button[data-k='1']")
    off, on = browser.run("""const section = document.querySelector(".legend").closest("section");
      const marks = [...section.querySelectorAll("figure [data-k]")];
      return [false, true].map(mine => marks.filter(e => (e.dataset.k === "1") === mine).every(
        e => e.classList.contains("off") === !mine));""")
    assert off
    assert on
    browser.click(".legend button[data-k='1']")
    assert browser.run("return document.querySelectorAll('.off').length") == 0


def test_a_table_is_saved_as_the_same_csv_as_python_writes(browser: Browser, page: Path) -> None:
    browser.open(page)
    text = browser.run(f"return csv({HEAD}.closest('table'))")
    sections = read_runs(page.parent / "runs", BOTH).sections
    assert list(csv.reader(io.StringIO(text))) == csv_rows(arms_table(sections[0]))
    claims = browser.run("return csv(document.querySelector('.cards table'))")
    assert list(csv.reader(io.StringIO(claims))) == csv_rows(claims_table(evidence(sections)))


def test_figures_are_saved_as_svg_and_png_with_title_and_legend(browser: Browser, page: Path) -> None:
    browser.open(page)
    count = browser.run("return document.querySelectorAll('figure').length")
    assert count >= 5
    texts = browser.run("return [...document.querySelectorAll('figure')].map(picture)")
    for text in texts:
        assert ElementTree.fromstring(text).tag.endswith("svg")
    written = {
        words[0]: words
        for words in (
            [e.text or "" for e in ElementTree.fromstring(text).iter() if e.tag.endswith("text")] for text in texts
        )
    }
    assert written["top1 over heads"][-2:] == ["depth 4", "depth 2"]  # the legend comes last
    assert written["kappa by layer"][-8:] == [arm.name for arm in GRID.setting("small").arms]
    data = browser.run("""const blob = await png(document.querySelector("figure")), reader = new FileReader();
      return new Promise(done => { reader.onload = () => done(reader.result); reader.readAsDataURL(blob); });""")
    made = base64.b64decode(data.partition(",")[2])
    assert made[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">I", made[16:20])[0] == 1600


def test_buttons_hand_over_files_without_a_network(browser: Browser, page: Path) -> None:
    browser.open(page)
    names = browser.run("""
      const given = []; HTMLAnchorElement.prototype.click = function () { given.push([this.download, this.protocol]); };
      for (const kind of ["csv", "svg", "png"]) document.querySelector(`[data-get=${kind}]`).click();
      await new Promise(done => { const wait = () => given.length > 2 ? done() : setTimeout(wait, 20); wait(); });
      return given;""")
    assert sorted(names) == [
        ["Claims.csv", "blob:"],
        ["demo_small_top1_over_steps.png", "blob:"],
        ["demo_small_top1_over_steps.svg", "blob:"],
    ]


def test_sliders_move_numbers_warnings_and_the_command(browser: Browser, page: Path) -> None:
    browser.open(page)
    before = browser.run(f"return {COSTS}")
    assert before["params"] == "40.11 M"  # the paper's lean ViT-B
    browser.run("document.getElementById('x-heads').focus()")
    browser.press("ArrowRight")
    after = browser.run(f"return {COSTS}")
    assert after["inner"] == "1088"
    assert after["params"] != before["params"]
    assert float(after["kappa"]) < float(before["kappa"])
    assert "--heads 17 " in browser.run("return document.getElementById('x-command').textContent")
    browser.run("set({depth: 12, heads: 3, head_dim: 64, mlp_dim: 3072})")
    assert {"peak", "narrow"} <= set(browser.run(f"return {CODES}"))
    browser.run("set({heads: 48, head_dim: 16})")
    assert {"split", "thin"} <= set(browser.run(f"return {CODES}"))
    browser.run("set({heads: 12, head_dim: 64})")
    assert browser.run(f"return {CODES}") == ["none"]
    assert browser.complaints == []


@pytest.mark.parametrize("name", ["vit_b", "gpt2", "llama_1b", "tnt_b", "nystromformer_text"])
def test_costs_on_the_page_are_those_of_the_record_to_the_last_unit(browser: Browser, page: Path, name: str) -> None:
    """As `test_explorer` has it in node for every model: a browser of the reader's own computes the same."""
    browser.open(page)
    cases = turned(name)
    found = browser.run(f"return {json.dumps(cases)}.map(dials => design(MODELS[{json.dumps(name)}], dials))")
    for case, told in zip(cases, found, strict=True):
        arch = built(name, case)
        expected = [
            params(arch).total,
            params(arch).non_embedding,
            forward_flops(arch),
            training_bytes(arch, case["batch"], "amp", True),
        ]
        assert [told[key] for key in ("params", "non_embedding", "flops", "memory")] == expected, case
        tokens, inner = arch.stages[editable(arch)[0]].tokens, case["heads"] * case["head_dim"]
        assert told["log_kappa"] == pytest.approx(gaussian_log_kappa(tokens, inner).mean, rel=1e-12, abs=1e-12)


def test_on_a_phone_a_claim_is_a_card_with_its_verdict_in_sight(browser: Browser, page: Path) -> None:
    browser.open(page, width=360, height=740, phone=True)
    found = browser.run("""return [...document.querySelectorAll(".cards tbody td .badge")].map(
      badge => badge.getBoundingClientRect()).every(box => box.left >= 0 && box.right <= 360 && box.height > 10)""")
    assert found
    assert browser.run("return getComputedStyle(document.querySelector('.cards td'), '::before').content") == '"claim"'


def test_every_model_can_be_chosen_and_starts_at_its_own_design(browser: Browser, page: Path) -> None:
    browser.open(page)
    found = browser.run(f"""const box = document.getElementById("x-model"), out = {{}};
      for (const option of box.options) {{ box.value = option.value; box.dispatchEvent(new Event("change"));
        out[option.value] = {COSTS}; }} return out;""")
    assert len(found) > 15
    assert all(re.fullmatch(r"[\d.e+]+( [kMGTPE])?", costs["params"]) for costs in found.values()), json.dumps(found)
    assert found["gpt2"]["params"] == "124.44 M"
    assert found["gpt2"]["non_embedding"] == "85.06 M"
    assert "non_embedding" not in found["vit_b"]
    assert "kv" in found["gpt2"]
    assert "kv" not in found["bert_base"]
    assert browser.complaints == []


def test_a_long_table_is_filtered_by_typing(browser: Browser, tmp_path: Path) -> None:
    more = replace(FOUR, settings={"small": replace(FOUR.setting("small"), seeds=tuple(range(8)))})
    quick(tmp_path / "runs", more, "small", lambda spec: 0.8)
    write(tmp_path / "runs", tmp_path / "page.html", experiments={"demo": more})
    browser.open(tmp_path / "page.html")
    boxes, shown = browser.run("""const boxes = [...document.querySelectorAll("input.filter")], box = boxes.at(-1);
      box.value = "Split-S"; box.dispatchEvent(new Event("input"));
      const rows = [...box.closest(".table").querySelectorAll("tbody tr")];
      return [boxes.length, rows.filter(row => !row.hidden).map(row => row.cells[0].textContent)];""")
    assert boxes == 1  # of the runs alone: a box for four rows would be in the way
    assert shown == ["split"] * 8
