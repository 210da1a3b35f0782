// What the design explorer predicts and warns of: kappa of Gaussian heads, and the planner's rules, one design at a time.
// Python has both too, over arrays (conditioning.theory, planner); tests hold the two equal, the prediction to twelve
// digits and the warnings by code over random designs. SETTINGS has the constants of both, MODELS the costs.

function interpolate(table, at) {
  const i = Math.min(Math.floor(at), table.length - 2);
  return table[i] + (at - i) * (table[i + 1] - table[i]);
}

// Mean and standard deviation of log kappa of tokens x inner independent normal entries.
function gaussian(tokens, inner) {
  const {tw_mean, tw_variance, hard_mean, hard_spread, hard_shift} = SETTINGS.gaussian;
  const n = Math.max(tokens, inner), p = Math.min(tokens, inner), nu = n - p;
  if (p <= 1) return {mean: 0, spread: 0};
  const a = Math.sqrt(n - 0.5), b = Math.sqrt(p - 0.5), upper = Math.cbrt(1 / a + 1 / b) / (a + b);
  const largest = 2 * Math.log(a + b) + tw_mean * upper - tw_variance / 2 * upper ** 2;
  let smallest, scatter;
  if (nu > hard_mean.length - 1) {
    const gap = a - b, lower = Math.cbrt(1 / b - 1 / a) / gap;
    smallest = Math.log(gap) + lower ** 2 / 16 - tw_mean * lower / 2;
    scatter = Math.sqrt(tw_variance) / 2 * lower;
  } else {
    smallest = interpolate(hard_mean, nu) + hard_shift / p - Math.log((n + p) / 2) / 2;
    scatter = interpolate(hard_spread, nu);
  }
  return {mean: Math.max(largest / 2 - smallest, 0), spread: Math.hypot(Math.sqrt(tw_variance) / 2 * upper, scatter)};
}

const sameInner = (now, was) => Math.abs(now.inner / was.inner - 1) <= SETTINGS.split_tolerance;

function policy(now, was) {
  if (now.heads === was.heads) return now.head_dim === was.head_dim ? "same" : "head_dim";
  if (sameInner(now, was)) return "split";
  return now.head_dim === was.head_dim ? "fixed" : "other";
}

// What speaks against a design `now` of the original `was`. Both have the dials, inner, tokens, log_kappa and costs.
function warnings(now, was, softmax) {
  const {near_peak, unchanged, low_rank, very_low_rank, usual_rank, kernels} = SETTINGS.thresholds;
  const {tried_depth, tried_heads, tried_mlp} = SETTINGS.thresholds;
  const notes = [], say = (level, code, words) => notes.push({level, code, words});
  const decimals = value => value.toFixed(2);
  const changed = now.heads !== was.heads || now.head_dim !== was.head_dim;
  const ratio = now.inner / now.tokens, log = now.log_kappa - was.log_kappa;
  const times = decimals(Math.exp(log)) + " of the original's";
  const wider = now.inner > (1 + SETTINGS.split_tolerance) * was.inner;
  const near = changed && ratio >= near_peak[0] && ratio <= near_peak[1], below = changed && ratio < 1;
  if (near) say("serious", "peak", `inner ${now.inner} is near the ${now.tokens} tokens, where kappa peaks (inner / ` +
    `tokens ${decimals(ratio)}): predicted kappa is ${times}`);
  if (below) say("serious", "narrow", `inner ${now.inner} is below the ${now.tokens} tokens. There kappa rises with ` +
    `inner, until inner equals tokens at ${Math.ceil(now.tokens / now.head_dim)} heads of this size: the argument ` +
    "that more heads improve conditioning does not apply");
  if (now.heads > was.heads && sameInner(now, was)) say("serious", "split", `split: inner stays at ${now.inner}, so ` +
    `theory predicts no change of kappa, and the rank of a head falls from ${was.head_dim} to ${now.head_dim}`);
  if (wider && !near && !below && log >= unchanged) say("serious", "worse", `predicted kappa is ${times}: the original ` +
    "is on the other side of the peak, and more heads do not pay");
  const low = now.head_dim < low_rank || (now.head_dim < was.head_dim && now.head_dim < usual_rank);
  if (now.depth < was.depth && low) say("serious", "shallow_rank", `fewer layers (${was.depth} to ${now.depth}) of ` +
    `low rank per head (${now.head_dim}): this is where the errors in the second paper are largest`);
  if (changed && now.head_dim < very_low_rank) say("serious", "rank", `head_dim ${now.head_dim} is under ` +
    `${very_low_rank}: each head has little rank to match tokens with`);
  if (wider && Math.abs(log) < unchanged) say("caution", "unchanged", `predicted kappa is ${times}: the added heads ` +
    "change next to nothing");
  if (changed && now.head_dim >= very_low_rank && now.head_dim < low_rank) say("caution", "thin", `head_dim ` +
    `${now.head_dim} is under ${low_rank}: each head has little rank to match tokens with`);
  const [layers, heads, mlp] = ["depth", "heads", "mlp_dim"].map(dial => now[dial] / was[dial]);
  const untried = [[layers, "of the layers", layers < tried_depth - 1e-9], [heads, "times the heads", heads > tried_heads],
    [mlp, "of the MLP", mlp < tried_mlp]].filter(step => step[2]);
  if (untried.length) say("caution", "untried", untried.map(step => `${decimals(step[0])} ${step[1]}`).join(" and ") +
    ": farther than any redesign of the first paper (a third of the layers, twice the heads, half the MLP)");
  if (softmax && changed && !kernels.includes(now.head_dim)) {
    const padded = kernels.find(size => size >= now.head_dim);
    say("caution", "kernel", `head_dim ${now.head_dim}: fused attention kernels ` +
      (padded ? `compute it as ${padded}` : `stop at ${kernels.at(-1)}`));
  }
  const dearer = [["flops", "forward FLOPs"], ["memory", "training memory"], ["kv", "KV cache"]]
    .filter(([cost]) => was[cost] && now[cost] > was[cost])
    .map(([cost, name]) => `${name} ${decimals(now[cost] / was[cost])}x`);
  if (dearer.length) say("caution", "dearer", "costs more than the original: " + dearer.join(", "));
  return notes;
}

// A design in numbers: the dials, what follows from them, and what it costs.
function design(model, dials) {
  const tokens = model.tokens(dials), inner = dials.heads * dials.head_dim;
  const sizes = {...dials, tokens, inner}, kappa = gaussian(tokens, inner);
  return {...sizes, ...model.cost(sizes), log_kappa: kappa.mean, spread: kappa.spread};
}

// Its original at the same tokens and batch: only what a redesign may change is set back.
function original(model, dials) {
  const {depth, heads, head_dim, mlp_dim} = Object.fromEntries(model.dials.map(([name, , , , value]) => [name, value]));
  return design(model, {...dials, depth, heads, head_dim, mlp_dim});
}
