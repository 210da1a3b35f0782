"""What the explorer predicts and warns of, in JavaScript: kappa of Gaussian heads, and the planner's rules.

Both are kept in Python too (`conditioning.theory`, `planner`), over arrays; here one design at a time. Tests hold the
two equal: the prediction to twelve digits, the codes of the warnings over random designs."""

from __future__ import annotations

from manyheads.arch.redesign import SPLIT_TOLERANCE

GAUSSIAN = """
const TW_MEAN = -1.2065335745820, TW_VARIANCE = 1.6077810345810, HARD_SHIFT = 0.3;
const HARD_MEAN = [-0.8439, 0.0580, 0.505, 0.8015, 1.027, 1.208, 1.359, 1.491, 1.605, 1.708, 1.801, 1.886, 1.964, 2.035,
  2.102, 2.166, 2.2245];
const HARD_SPREAD = [1.118, 0.640, 0.474, 0.387, 0.332, 0.294, 0.264, 0.2415, 0.2225, 0.2085, 0.195, 0.185, 0.174, 0.166,
  0.159, 0.153, 0.147];
function along(table, at) {
  const i = Math.min(Math.floor(at), table.length - 2);
  return table[i] + (at - i) * (table[i + 1] - table[i]);
}
// mean and spread of log kappa of independent normal entries, tokens x inner
function gaussian(tokens, inner) {
  const n = Math.max(tokens, inner), p = Math.min(tokens, inner), nu = n - p;
  if (p <= 1) return {mean: 0, spread: 0};
  const a = Math.sqrt(n - 0.5), b = Math.sqrt(p - 0.5), upper = Math.cbrt(1 / a + 1 / b) / (a + b);
  const top = 2 * Math.log(a + b) + TW_MEAN * upper - TW_VARIANCE / 2 * upper ** 2;
  let low, scatter;
  if (nu > HARD_MEAN.length - 1) {
    const gap = a - b, lower = Math.cbrt(1 / b - 1 / a) / gap;
    low = Math.log(gap) + lower ** 2 / 16 - TW_MEAN * lower / 2;
    scatter = Math.sqrt(TW_VARIANCE) / 2 * lower;
  } else {
    low = along(HARD_MEAN, nu) + HARD_SHIFT / p - Math.log((n + p) / 2) / 2;
    scatter = along(HARD_SPREAD, nu);
  }
  return {mean: Math.max(top / 2 - low, 0), spread: Math.hypot(Math.sqrt(TW_VARIANCE) / 2 * upper, scatter)};
}
"""

RULES = (
    f"const SPLIT_TOLERANCE = {SPLIT_TOLERANCE};"
    + """
const NEAR_PEAK = [0.7, 1.4], UNCHANGED = 0.02, FLOOR = 32, LEAST = 16, USUAL = 64, KERNELS = [32, 64, 96, 128, 192, 256];
const fixed = (value, digits = 2) => value.toFixed(digits);
function policy(now, was) {
  if (now.heads === was.heads) return now.head_dim === was.head_dim ? "same" : "head_dim";
  if (Math.abs(now.inner / was.inner - 1) <= SPLIT_TOLERANCE) return "split";
  return now.head_dim === was.head_dim ? "fixed" : "other";
}
// what speaks against a design `now` of the original `was`; both have the dials, inner, tokens, kappa (log) and costs
function warnings(now, was, softmax) {
  const found = [], say = (level, code, words) => found.push({level, code, words});
  const changed = now.heads !== was.heads || now.head_dim !== was.head_dim;
  const ratio = now.inner / now.tokens, log = now.log_kappa - was.log_kappa;
  const times = fixed(Math.exp(log)) + " of the original's";
  const wider = now.inner > (1 + SPLIT_TOLERANCE) * was.inner;
  const near = changed && ratio >= NEAR_PEAK[0] && ratio <= NEAR_PEAK[1], below = changed && ratio < 1;
  if (near) say("serious", "peak", `inner ${now.inner} is near the ${now.tokens} tokens, where kappa peaks (inner / ` +
    `tokens ${fixed(ratio)}): predicted kappa is ${times}`);
  if (below) say("serious", "narrow", `inner ${now.inner} is below the ${now.tokens} tokens: there kappa rises with ` +
    `inner, until that meets tokens at ${Math.ceil(now.tokens / now.head_dim)} heads of this size; the conditioning ` +
    "argument does not apply");
  if (now.heads > was.heads && Math.abs(now.inner / was.inner - 1) <= SPLIT_TOLERANCE) say("serious", "split",
    `split: inner stays at ${now.inner}, so that theory predicts no change of kappa, and rank per head falls from ` +
    `${was.head_dim} to ${now.head_dim}`);
  if (wider && !near && !below && log >= UNCHANGED) say("serious", "worse", `predicted kappa is ${times}: the original ` +
    "is on the other side of the peak, and more heads do not pay");
  const low = now.head_dim < FLOOR || (now.head_dim < was.head_dim && now.head_dim < USUAL);
  if (now.depth < was.depth && low) say("serious", "shallow_rank", `fewer layers (${was.depth} to ${now.depth}) of low ` +
    `rank per head (${now.head_dim}): where the second paper's errors are largest`);
  if (changed && now.head_dim < LEAST) say("serious", "rank", `head_dim ${now.head_dim} is under ${LEAST}: each head has ` +
    "little rank to match tokens with");
  if (wider && Math.abs(log) < UNCHANGED) say("caution", "unchanged", `predicted kappa is ${times}: the added heads ` +
    "bring next to nothing");
  if (changed && now.head_dim >= LEAST && now.head_dim < FLOOR) say("caution", "thin", `head_dim ${now.head_dim} is ` +
    `under ${FLOOR}: each head has little rank to match tokens with`);
  const far = [[now.depth / was.depth, "of the layers", now.depth / was.depth < 1 / 3 - 1e-9],
    [now.heads / was.heads, "times the heads", now.heads / was.heads > 2],
    [now.mlp_dim / was.mlp_dim, "of the MLP", now.mlp_dim / was.mlp_dim < 0.5]].filter(step => step[2]);
  if (far.length) say("caution", "untried", far.map(step => `${fixed(step[0])} ${step[1]}`).join(" and ") +
    ": farther than any redesign of the first paper (a third of the layers, twice the heads, half the MLP)");
  if (softmax && changed && !KERNELS.includes(now.head_dim)) {
    const padded = KERNELS.find(size => size >= now.head_dim);
    say("caution", "kernel", `head_dim ${now.head_dim}: fused attention kernels ` +
      (padded ? `compute it as ${padded}` : "stop at 256"));
  }
  const dearer = [["flops", "forward FLOPs"], ["memory", "training memory"], ["kv", "KV cache"]]
    .filter(([cost]) => was[cost] && now[cost] > was[cost])
    .map(([cost, name]) => `${name} ${fixed(now[cost] / was[cost])}x`);
  if (dearer.length) say("caution", "dearer", "costs more than the original: " + dearer.join(", "));
  return found;
}
"""
)

DESIGN = """
// a design in numbers: the dials as given, what follows from them, what it costs
function design(model, dials) {
  const tokens = model.tokens(dials), inner = dials.heads * dials.head_dim;
  const known = {...dials, tokens, inner}, kappa = gaussian(tokens, inner);
  return {...known, ...model.cost(known), log_kappa: kappa.mean, spread: kappa.spread};
}
// its original, at the same tokens and batch: only what a redesign may change is taken back
function original(model, dials) {
  const {depth, heads, head_dim, mlp_dim} = Object.fromEntries(model.dials.map(([name, , , , value]) => [name, value]));
  return design(model, {...dials, depth, heads, head_dim, mlp_dim});
}
"""


def pure(models: str) -> str:
    """Everything that needs no page: models, prediction, warnings, designs."""
    return f"const MODELS = {models};{GAUSSIAN}{RULES}{DESIGN}"
