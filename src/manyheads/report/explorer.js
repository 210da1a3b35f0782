// The design explorer: its dials become numbers, warnings, a command and a curve. explorer_rules.js computes them.

const at = id => document.getElementById(id), dials = {};
const UNITS = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
function short(value) {
  const unit = UNITS.find(([size]) => value >= size);
  return unit ? (value / unit[0]).toFixed(2) + " " + unit[1] : String(Math.round(value));
}
const bytes = value => short(value) + "B";
const kappaText = kappa => kappa < 1e4 ? kappa.toPrecision(3) : kappa.toExponential(1);
const ROWS = [
  ["params", "parameters", short],
  ["non_embedding", "of these in the layers", short],
  ["flops", "forward FLOPs, one sample", short],
  ["memory", "training memory, bf16 autocast, fused attention", bytes],
  ["memory_fp32", "training memory, float32, attention maps kept", bytes],
  ["kv", "KV cache, one token", bytes],
  ["inner", "inner = heads x head_dim", String],
  ["tokens", "tokens", String],
  ["head_layers", "heads, summed over layers", String],
  ["kappa", "predicted kappa", kappaText],
];
const chosen = () => MODELS[at("x-model").value];
const element = (tag, properties) => Object.assign(document.createElement(tag), properties);

// The dials and presets of the chosen model, set to the paper's design where it has one.
function build() {
  const rows = [...chosen().dials, ["batch", 1, 512, 1, 32]].map(([name, least, most, step, start]) => {
    dials[name] = start;
    const row = element("div", {className: "dial"});
    const inputs = ["range", "number"].map(type => element("input", {type, min: least, max: most, step, value: start}));
    inputs[0].id = "x-" + name;
    inputs[1].setAttribute("aria-label", name + ", typed");
    for (const input of inputs) input.addEventListener("input", () => {
      const value = Math.round(Number(input.value));
      if (!(value >= 1)) return;
      dials[name] = value;
      for (const other of inputs) if (other !== input) other.value = value;
      show();
    });
    row.append(element("label", {textContent: name, htmlFor: "x-" + name}), ...inputs);
    return row;
  });
  at("x-dials").replaceChildren(...rows);
  const own = Object.fromEntries(chosen().dials.map(([name, , , , start]) => [name, start]));
  const presets = [["back to the original", own], ...Object.entries(chosen().presets)];
  at("x-presets").replaceChildren(...presets.map(([name, values]) => {
    const button = element("button", {type: "button", textContent: name});
    button.addEventListener("click", () => set(values));
    return button;
  }));
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
  const shown = ROWS.filter(([cost]) => was[cost] && (cost !== "non_embedding" || model.language));
  at("x-costs").tBodies[0].replaceChildren(...shown.map(([cost, name, text]) => {
    const row = element("tr", {});
    row.dataset.cost = cost;
    for (const cell of [name, text(now[cost]), text(was[cost]), (now[cost] / was[cost]).toFixed(2)])
      row.append(element("td", {textContent: cell}));
    return row;
  }));
  const items = warnings(now, was, model.softmax).map(({level, code, words}) => {
    const item = element("li", {className: level, textContent: `${level}: ${words}.`});
    item.dataset.code = code;
    return item;
  });
  at("x-warnings").replaceChildren(...(items.length ? items : [element("li", {textContent: "none"})]));
  const flags = [["depth", now.depth], ["heads", now.heads], ["head-dim", now.head_dim], ["mlp-dim", now.mlp_dim]];
  const context = model.dials.some(([name]) => name === "tokens") ? ` --tokens ${now.tokens}` : "";
  at("x-command").textContent = `manyheads shape ${at("x-model").value}${context} ` +
    flags.map(([name, value]) => `--${name} ${value}`).join(" ") + `\n# policy: ${policy(now, was)}`;
  plot(now, was);
}

// Predicted kappa over the number of heads, with the design and its original on the curve.
function plot(now, was) {
  const left = 60, right = 380, top = 14, bottom = 246;
  const most = Math.max(16, 2 * now.heads, 2 * was.heads, Math.ceil(2 * now.tokens / now.head_dim));
  const counts = [...new Set(Array.from({length: 161}, (_, i) => Math.max(1, Math.round(most ** (i / 160)))))];
  const logs = counts.map(heads => gaussian(now.tokens, heads * now.head_dim).mean);
  const highest = Math.max(...logs, now.log_kappa, was.log_kappa) * 1.05 + 0.1;
  const x = heads => left + (right - left) * Math.log(heads) / Math.log(most);
  const y = log => bottom - (bottom - top) * log / highest;
  const parts = [];
  const add = (tag, attributes, text = "") => {
    const part = document.createElementNS(at("x-plot").namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
    part.textContent = text;
    parts.push(part);
  };
  for (let power = 0; power * Math.log(10) <= highest; power++) for (const m of highest < 7 ? [1, 2, 5] : [1]) {
    const log = Math.log(m * 10 ** power);
    if (log > highest) continue;
    add("path", {class: "grid", d: `M${left} ${y(log)}H${right}`});
    add("text", {x: left - 7, y: y(log) + 4, "text-anchor": "end"}, String(m * 10 ** power));
  }
  for (let heads = 1; heads <= most; heads *= most > 300 ? 4 : 2)
    add("text", {x: x(heads), y: bottom + 18, "text-anchor": "middle"}, String(heads));
  add("text", {x: 218, y: bottom + 38, "text-anchor": "middle"}, `heads of ${now.head_dim}`);
  add("text", {transform: "translate(11 130) rotate(-90)", "text-anchor": "middle"}, "predicted kappa");
  add("path", {class: "axis", d: `M${left} ${bottom}H${right}`});
  const peak = now.tokens / now.head_dim;
  if (peak > 1) add("path", {class: "line c1 dotted", d: `M${x(peak)} ${top}V${bottom}`});
  add("path", {class: "line c0", d: "M" + counts.map((heads, i) => `${x(heads)} ${y(logs[i])}`).join("L")});
  add("circle", {class: "mark c0 hollow", cx: x(was.heads), cy: y(was.log_kappa), r: 6});
  add("circle", {class: "mark c0", cx: x(now.heads), cy: y(now.log_kappa), r: 5});
  at("x-plot").replaceChildren(...parts);
}

at("x-form").addEventListener("submit", event => event.preventDefault());
at("x-model").addEventListener("change", build);
build();
