"""The design explorer on the page: its markup, and the script that turns dials into numbers, warnings and a curve."""

from __future__ import annotations

from html import escape

from manyheads.arch import zoo
from manyheads.spec.arch import FAMILIES

from .explorer import FIRST, MODELS


def markup() -> str:
    """The section with its form; the dials are made by the script, since each model has its own."""
    groups: dict[str, list[str]] = {}
    for name in MODELS:
        chosen = " selected" if name == FIRST else ""
        option = f'<option value="{name}"{chosen}>{escape(name)}: {escape(zoo.note(name))}</option>'
        groups.setdefault(FAMILIES[zoo.get(name).family].label, []).append(option)
    options = "".join(
        f'<optgroup label="{escape(label)}">{"".join(found)}</optgroup>' for label, found in groups.items()
    )
    return (
        '<section id="explorer" aria-labelledby="x"><h2 id="x">Design explorer</h2>'
        "<p>What a redesign costs, and what kappa of its heads would be if their entries were independent and normal. "
        "The formulas are those that count every model here; a trained model's kappa is larger by orders of magnitude, "
        "and the ratio between two designs is what the prediction is for.</p>"
        "<noscript><p>The explorer needs JavaScript.</p></noscript>"
        f'<div class="explorer"><form id="x-form"><label for="x-model">original</label><select id="x-model">{options}'
        '</select><div id="x-dials"></div><div id="x-presets" class="tools"></div><strong>Warnings</strong>'
        '<ul id="x-warnings" class="warnings" aria-live="polite"></ul></form>'
        '<div><div class="wide" role="region" tabindex="0" aria-label="Costs of the design"><table id="x-costs"><thead>'
        '<tr><th scope="col"></th><th scope="col">design</th><th scope="col">original</th><th scope="col">ratio</th></tr>'
        '</thead><tbody></tbody></table></div><pre id="x-command"></pre>'
        '<figure data-name="explorer_kappa"><strong id="x-title">kappa over heads</strong>'
        '<svg class="plot" id="x-plot" viewBox="0 0 400 290" role="img" aria-labelledby="x-title"></svg>'
        "<figcaption>Predicted kappa at these tokens and this head_dim; filled: the design, hollow: the original. The "
        "upright line is where inner meets tokens.</figcaption>"
        '<div class="tools"><button type="button" class="get" data-get="svg">SVG</button>'
        '<button type="button" class="get" data-get="png">PNG</button></div></figure>'
        "</div></div></section>"
    )


SCRIPT = """
const at = id => document.getElementById(id), dials = {}, NS = at("x-plot").namespaceURI;
const units = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
function short(value) {
  const found = units.find(([size]) => value >= size);
  return found ? (value / found[0]).toFixed(2) + " " + found[1] : String(Math.round(value));
}
const shown = kappa => kappa < 1e4 ? kappa.toPrecision(3) : kappa.toExponential(1);
const ROWS = [["params", "parameters", short], ["non_embedding", "of these in the layers", short],
  ["flops", "forward FLOPs, one sample", short],
  ["memory", "training memory, bf16 autocast, fused", value => short(value) + "B"],
  ["memory_fp32", "training memory, float32, maps kept", value => short(value) + "B"],
  ["kv", "KV cache, one token", value => short(value) + "B"], ["inner", "inner = heads x head_dim", String],
  ["tokens", "tokens", String], ["head_layers", "heads summed over layers", String],
  ["kappa", "predicted kappa", shown]];
function chosen() { return MODELS[at("x-model").value]; }
function build() {
  const box = at("x-dials");
  box.replaceChildren();
  for (const [name, least, most, step, start] of [...chosen().dials, ["batch", 1, 512, 1, 32]]) {
    dials[name] = start;
    const row = document.createElement("div"), both = [];
    row.className = "dial";
    const label = document.createElement("label");
    label.textContent = name;
    label.htmlFor = "x-" + name;
    for (const type of ["range", "number"]) {
      const input = document.createElement("input");
      Object.assign(input, {type, min: least, max: most, step, value: start});
      if (type === "range") input.id = "x-" + name; else input.setAttribute("aria-label", name + ", typed");
      input.addEventListener("input", () => {
        const value = Math.round(Number(input.value));
        if (!(value >= 1)) return;
        dials[name] = value;
        for (const other of both) if (other !== input) other.value = value;
        show();
      });
      both.push(input);
    }
    row.append(label, ...both);
    box.append(row);
  }
  const buttons = [["back to the original", Object.fromEntries(chosen().dials.map(d => [d[0], d[4]]))],
    ...Object.entries(chosen().presets)].map(([name, values]) => {
      const button = document.createElement("button");
      Object.assign(button, {type: "button", textContent: name});
      button.addEventListener("click", () => set(values));
      return button;
    });
  at("x-presets").replaceChildren(...buttons);
  set(Object.values(chosen().presets)[0] ?? {});
}
function set(values) {
  Object.assign(dials, values);
  for (const name of Object.keys(values))
    for (const input of at("x-" + name).parentNode.querySelectorAll("input")) input.value = values[name];
  show();
}
function show() {
  const model = chosen(), now = design(model, dials), was = original(model, dials);
  now.kappa = Math.exp(now.log_kappa);
  was.kappa = Math.exp(was.log_kappa);
  at("x-costs").tBodies[0].replaceChildren(...ROWS.filter(([key]) => was[key] &&
    (key !== "non_embedding" || model.language)).map(([key, name, text]) => {
    const row = document.createElement("tr");
    row.dataset.cost = key;
    for (const cell of [name, text(now[key]), text(was[key]), (now[key] / was[key]).toFixed(2)])
      row.append(Object.assign(document.createElement("td"), {textContent: cell}));
    return row;
  }));
  const found = warnings(now, was, model.softmax), said = found.map(({level, code, words}) => {
    const item = Object.assign(document.createElement("li"), {className: level, textContent: `${level}: ${words}.`});
    item.dataset.code = code;
    return item;
  });
  const none = Object.assign(document.createElement("li"), {textContent: "none"});
  at("x-warnings").replaceChildren(...(said.length ? said : [none]));
  const flags = [["depth", now.depth], ["heads", now.heads], ["head-dim", now.head_dim], ["mlp-dim", now.mlp_dim]];
  const context = model.dials.some(([name]) => name === "tokens") ? ` --tokens ${now.tokens}` : "";
  at("x-command").textContent = `manyheads shape ${at("x-model").value}${context} ` +
    flags.map(([name, value]) => `--${name} ${value}`).join(" ") + `\\n# policy: ${policy(now, was)}`;
  plot(now, was);
}
function plot(now, was) {
  const most = Math.max(16, 2 * now.heads, 2 * was.heads, Math.ceil(2 * now.tokens / now.head_dim));
  const counts = [...new Set(Array.from({length: 161}, (_, i) => Math.max(1, Math.round(most ** (i / 160)))))];
  const logs = counts.map(heads => gaussian(now.tokens, heads * now.head_dim).mean);
  const top = Math.max(...logs, now.log_kappa, was.log_kappa) * 1.05 + 0.1;
  const x = heads => 60 + 320 * Math.log(heads) / Math.log(most), y = log => 246 - 232 * log / top;
  const parts = [];
  const add = (tag, attributes, text = "") => {
    const made = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.textContent = text;
    parts.push(made);
  };
  for (let power = 0; power * Math.log(10) <= top; power++) for (const m of top < 7 ? [1, 2, 5] : [1]) {
    const log = Math.log(m * 10 ** power);
    if (log > top) continue;
    add("path", {class: "grid", d: `M60 ${y(log)}H380`});
    add("text", {x: 53, y: y(log) + 4, "text-anchor": "end"}, String(m * 10 ** power));
  }
  for (let heads = 1; heads <= most; heads *= most > 300 ? 4 : 2)
    add("text", {x: x(heads), y: 264, "text-anchor": "middle"}, String(heads));
  add("text", {x: 218, y: 284, "text-anchor": "middle"}, `heads of ${now.head_dim}`);
  add("text", {transform: "translate(11 130) rotate(-90)", "text-anchor": "middle"}, "predicted kappa");
  add("path", {class: "axis", d: "M60 246H380"});
  const peak = now.tokens / now.head_dim;
  if (peak > 1) add("path", {class: "line c1 dotted", d: `M${x(peak)} 14V246`});
  add("path", {class: "line c0", d: "M" + counts.map((heads, i) => `${x(heads)} ${y(logs[i])}`).join("L")});
  add("circle", {class: "mark c0 hollow", cx: x(was.heads), cy: y(was.log_kappa), r: 6});
  add("circle", {class: "mark c0", cx: x(now.heads), cy: y(now.log_kappa), r: 5});
  at("x-plot").replaceChildren(...parts);
}
at("x-form").addEventListener("submit", event => event.preventDefault());
at("x-model").addEventListener("change", build);
build();
"""
