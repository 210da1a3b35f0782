"""The page's style and its few lines of script: light and dark, narrow screens, tables that sort by mouse or keyboard."""

from __future__ import annotations

LIGHT = ("#1f6feb", "#c2410c", "#15803d", "#7c3aed", "#be185d", "#a16207", "#0e7490", "#475569")
DARK = ("#6cb0ff", "#ff9d5c", "#56d07a", "#b794ff", "#ff8ac0", "#e3b341", "#4fd1e0", "#a9b6c6")


def _palette(colours: tuple[str, ...], **more: str) -> str:
    named = {f"c{i}": colour for i, colour in enumerate(colours)} | more
    return ";".join(f"--{name}:{value}" for name, value in named.items())


STYLE = (
    ":root{color-scheme:light dark;" + _palette(LIGHT, ink="#1c2128", dim="#57606a", rule="#d8dee4", back="#ffffff",
                                                card="#f6f8fa", link="#0b57d0") + "}"
    "@media (prefers-color-scheme:dark){:root{" + _palette(DARK, ink="#e6edf3", dim="#9aa7b4", rule="#30363d",
                                                           back="#0d1117", card="#161b22", link="#7cb7ff") + "}}"
    + "".join(f".c{i}{{--c:var(--c{i})}}" for i in range(len(LIGHT)))
    + """
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main,header,footer{max-width:68rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2rem}footer{padding-bottom:3rem;color:var(--dim);font-size:.875rem}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .25rem}h2{font-size:1.35rem;margin:2.5rem 0 .25rem}
h3{font-size:1rem;margin:1.75rem 0 .5rem}
p{margin:.5rem 0}.dim{color:var(--dim)}a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;background:var(--back);padding:.5rem}
.tag{display:inline-block;border:1px solid var(--rule);border-radius:1rem;padding:0 .6rem;font-size:.8rem;
color:var(--dim);vertical-align:middle}
.verdict,.wide,pre{border:1px solid var(--rule);border-radius:6px}.verdict,pre{background:var(--card)}
.verdict{border-left:4px solid var(--c0);padding:.6rem 1.1rem;margin:1rem 0}
.verdict li{margin:.35rem 0}.verdict ul{padding-left:1.1rem;margin:.4rem 0}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.45rem .7rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child,.words td,.words th{text-align:left}tr:last-child>*{border-bottom:0}
td:first-child{position:sticky;left:0;background:var(--back)}.words td{white-space:normal;min-width:9rem}
thead th{background:var(--card);font-weight:600;color:var(--dim)}
th button{all:unset;cursor:pointer;color:inherit}th button:focus-visible{outline:3px solid var(--link)}
th[aria-sort=ascending] button::after{content:" \\2191"}th[aria-sort=descending] button::after{content:" \\2193"}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr));gap:1.5rem;margin-top:1rem}
figure{margin:0;min-width:0}figcaption{font-size:.85rem;color:var(--dim);margin-top:.35rem}figure strong{font-size:.95rem}
svg{display:block;width:100%;height:auto;font:13px system-ui,sans-serif;fill:var(--dim)}
svg.key{display:inline-block;width:1rem;height:1rem;vertical-align:-.15rem}
.grid{stroke:var(--rule);stroke-width:1;fill:none}.axis{stroke:var(--dim);stroke-width:1;fill:none}
.line{fill:none;stroke:var(--c);stroke-width:2.2;stroke-linejoin:round}.mark{fill:var(--c);stroke:var(--back);stroke-width:1}
.bar{stroke:var(--c);stroke-width:1.4}
.line.faint{stroke-width:1;opacity:.45}.mark.faint{opacity:.75}.line.dotted{stroke-dasharray:1 5;stroke-linecap:round}
.label{fill:var(--ink);paint-order:stroke;stroke:var(--back);stroke-width:3px}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;margin:1rem 0 0;list-style:none;font-size:.9rem}
pre{padding:.7rem 1rem;overflow-x:auto;font-size:.85rem}
details{margin:.75rem 0}summary{cursor:pointer;font-weight:600}code{font-size:.9em}
.bad{border-left-color:var(--c1)}
@media print{details{display:block}.wide{overflow:visible}}
""".replace("\n", "")
)

SCRIPT = """
for (const button of document.querySelectorAll("th button")) button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0];
  const at = [...head.parentNode.children].indexOf(head), up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const key = row => row.children[at].dataset.key, number = row => Number(key(row));
  const rows = [...body.rows], text = rows.some(row => isNaN(number(row)));
  rows.sort((a, b) => (up ? 1 : -1) * (text ? key(a).localeCompare(key(b)) : number(a) - number(b)));
  body.append(...rows);
});
"""
