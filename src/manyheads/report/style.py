"""The page's style: light and dark, narrow screens, print; and the same marks for a figure in a file of its own."""

from __future__ import annotations

LIGHT = ("#1f6feb", "#c2410c", "#15803d", "#7c3aed", "#be185d", "#a16207", "#0e7490", "#475569")
DARK = ("#6cb0ff", "#ff9d5c", "#56d07a", "#b794ff", "#ff8ac0", "#e3b341", "#4fd1e0", "#a9b6c6")
INK, DIM, RULE, BACK = "#1c2128", "#57606a", "#d8dee4", "#ffffff"


def _palette(colours: tuple[str, ...], **more: str) -> str:
    named = {f"c{i}": colour for i, colour in enumerate(colours)} | more
    return ";".join(f"--{name}:{value}" for name, value in named.items())


MARKS = """
.grid{stroke:var(--rule);stroke-width:1;fill:none}.axis{stroke:var(--dim);stroke-width:1;fill:none}
.line{fill:none;stroke:var(--c);stroke-width:2.2;stroke-linejoin:round}.mark{fill:var(--c);stroke:var(--back);stroke-width:1}
.bar{stroke:var(--c);stroke-width:1.4;fill:none}.mark.hollow{fill:var(--back);stroke:var(--c);stroke-width:1.6}
.line.faint{stroke-width:1;opacity:.45}.mark.faint{opacity:.75}.line.dotted{stroke-dasharray:1 5;stroke-linecap:round}
.line.printed{stroke-width:1.3;stroke-dasharray:5 4}
.label{fill:var(--ink);paint-order:stroke;stroke:var(--back);stroke-width:3px}
"""

STYLE = (
    ":root{color-scheme:light dark;"
    + _palette(LIGHT, ink=INK, dim=DIM, rule=RULE, back=BACK, card="#f6f8fa", link="#0b57d0", want="#1f6feb22")
    + "}"
    "@media (prefers-color-scheme:dark){:root{"
    + _palette(
        DARK,
        ink="#e6edf3",
        dim="#9aa7b4",
        rule="#30363d",
        back="#0d1117",
        card="#161b22",
        link="#7cb7ff",
        want="#6cb0ff2e",
    )
    + "}}"
    + "".join(f".c{i}{{--c:var(--c{i})}}" for i in range(len(LIGHT)))
    + (
        """
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main,header,footer{max-width:76rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2rem}footer{padding-bottom:3rem;color:var(--dim);font-size:.875rem}
h1{font-size:1.75rem;line-height:1.2;margin:0 0 .25rem}h2{font-size:1.35rem;margin:2.75rem 0 .25rem;scroll-margin-top:.5rem}
h3{font-size:1rem;margin:1.75rem 0 .5rem}.name{font-weight:600}.apart{color:transparent}
td a{white-space:nowrap}
p{margin:.5rem 0;max-width:60rem}.dim{color:var(--dim)}a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px;border-radius:3px}
.skip{position:absolute;left:-99rem}.skip:focus{left:1rem;top:.5rem;background:var(--back);padding:.5rem}
.toc{display:flex;flex-wrap:wrap;gap:.4rem .5rem;list-style:none;padding:0;margin:.9rem 0 0;font-size:.9rem}
.toc li{border:1px solid var(--rule);border-radius:6px;padding:0 .3rem}
.toc a{display:inline-block;padding:.1rem .3rem;text-decoration:none}.toc .dim,.toc a+a{font-size:.8rem}
.tag{display:inline-block;border:1px solid var(--rule);border-radius:1rem;padding:0 .6rem;font-size:.8rem;
color:var(--dim);vertical-align:middle}
.verdict,.wide,pre{border:1px solid var(--rule);border-radius:6px}.verdict,pre{background:var(--card)}
.verdict{border-left:4px solid var(--c0);padding:.6rem 1.1rem;margin:1rem 0}
.verdict li{margin:.35rem 0}.verdict ul{padding-left:1.1rem;margin:.4rem 0}
.wide{overflow-x:auto}.table{margin:.75rem 0}
table{border-collapse:collapse;width:100%;font-size:.875rem;font-variant-numeric:tabular-nums}
th,td{padding:.42rem .65rem;text-align:right;white-space:nowrap;border-bottom:1px solid var(--rule)}
th:first-child,td:first-child,.words td,.words th{text-align:left}tr:last-child>*{border-bottom:0}
td:first-child{position:sticky;left:0;background:var(--back)}.words td{vertical-align:top}
.words td.long{white-space:normal;min-width:11rem}
thead th{background:var(--card);font-weight:600;color:var(--dim)}
th button{all:unset;cursor:pointer;color:inherit}th button:focus-visible{outline:3px solid var(--link)}
th[aria-sort=ascending] button::after{content:" \\2191"}th[aria-sort=descending] button::after{content:" \\2193"}
.badge{display:inline-block;border-radius:1rem;padding:0 .6rem;margin:.06rem 0;white-space:nowrap;
border:1px solid var(--dim)}
.badge::before{margin-right:.35rem;content:"\\25cb"}.badge.yes{border-color:var(--c2);color:var(--c2);font-weight:600}
.badge.no{border-color:var(--c1);color:var(--c1);font-weight:600}.badge.yes::before{content:"\\2713"}
.badge.no::before{content:"\\2717"}.badge.noise::before{content:"\\2248"}.badge.smoke{border-style:dashed;color:var(--dim)}
.tools{display:flex;gap:.4rem;margin:.35rem 0;flex-wrap:wrap;align-items:center}
.tools button,.legend button{font:inherit;font-size:.78rem;color:var(--dim);background:none;border:1px solid var(--rule);
border-radius:4px;padding:.02rem .45rem;cursor:pointer}.tools button:hover,.legend button:hover{border-color:var(--link)}
input.filter{font:inherit;font-size:.8rem;padding:.05rem .5rem;width:11rem}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,21rem),1fr));gap:1.5rem;margin-top:1rem}
figure{margin:0;min-width:0}figcaption{font-size:.82rem;color:var(--dim);margin-top:.35rem}figure strong{font-size:.95rem}
svg{display:block;width:100%;height:auto;font:13px system-ui,sans-serif;fill:var(--dim)}
svg.key{display:inline-block;width:1rem;height:1rem;vertical-align:-.15rem}
svg.strip{width:8.25rem;height:1.4rem;margin:.1rem 0}.wanted{fill:var(--want)}.span{stroke:var(--ink);stroke-width:2.5}
.mean{fill:var(--ink)}.paper{fill:var(--back);stroke:var(--c1);stroke-width:1.6}
"""
        + MARKS
        + """
.off{opacity:.1!important}
.legend{display:flex;flex-wrap:wrap;gap:.25rem .5rem;padding:0;margin:.8rem 0 0;list-style:none;font-size:.9rem}
.legend button{color:var(--ink);border-color:transparent;font-size:.85rem;padding:.05rem .25rem}
.legend button[aria-pressed=true]{border-color:var(--link);background:var(--card)}
pre{padding:.7rem 1rem;overflow-x:auto;font-size:.85rem;white-space:pre-wrap;overflow-wrap:anywhere}
details{margin:.75rem 0}summary{cursor:pointer;font-weight:600}code{font-size:.9em}
.bad{border-left-color:var(--c1)}
.explorer{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:1.25rem 2rem;margin-top:1rem}
.explorer>*{min-width:0}.explorer figure{max-width:30rem}
.explorer select{font:inherit;width:100%;padding:.3rem;margin-bottom:.5rem}
.explorer label{font-weight:600;font-size:.9rem}.explorer #x-costs td:first-child{white-space:normal}
.dial{display:grid;grid-template-columns:5rem 1fr 5.5rem;gap:.75rem;align-items:center;margin:.35rem 0}
.dial input{width:100%;min-width:0;font:inherit;accent-color:var(--c0)}
.warnings{padding-left:1.1rem;margin:.4rem 0}.warnings .serious{color:var(--c1)}.warnings .caution{color:var(--c5)}
dl.words{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem;font-size:.9rem}dl.words dd{margin:0}
@media (max-width:34rem){dl.words{display:block}dl.words dt{font-weight:600}
.cards table,.cards tbody,.cards tr{display:block}.cards thead tr{display:flex;flex-wrap:wrap;background:var(--card)}
.cards thead th{border:0}
.cards tr{padding:.4rem 0;border-bottom:1px solid var(--rule)}
.cards tbody tr{display:block}.cards tbody tr[hidden]{display:none}
.cards td{display:grid;grid-template-columns:6.5rem 1fr;gap:.5rem;border:0;padding:.15rem .65rem;white-space:normal}
.cards td::before{content:attr(data-head);color:var(--dim)}.cards td:empty{display:none}.words.cards td.long{min-width:0}
.cards .badge{white-space:normal}}
@media print{details{display:block}.wide{overflow:visible}.tools,#explorer{display:none}}
"""
    ).replace("\n", "")
)


def sheet() -> str:
    """The style of a figure in a file of its own: light, and without variables, which not every reader of SVG knows."""
    plain = MARKS.replace("\n", "")
    for name, colour in (("ink", INK), ("dim", DIM), ("rule", RULE), ("back", BACK)):
        plain = plain.replace(f"var(--{name})", colour)
    rules = [rule + "}" for rule in plain.split("}") if rule]
    fixed = [rule for rule in rules if "var(--c)" not in rule]
    coloured = [_coloured(rule, i, colour) for i, colour in enumerate(LIGHT) for rule in rules if "var(--c)" in rule]
    return f"svg{{font:13px sans-serif;fill:{DIM}}}" + "".join(fixed + coloured)


def _coloured(rule: str, number: int, colour: str) -> str:
    selector, _, body = rule.partition("{")
    return f"{selector}.c{number}{{{body.replace('var(--c)', colour)}"
