"""One set of formulas: printed as JavaScript, they give Python's numbers; a million designs cost a blink."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time

import pytest

from manyheads.arch import zoo
from manyheads.arch.count import activation_bytes, cost, forward_flops, kv_bytes, params
from manyheads.arch.redesign import edit, redesign
from manyheads.arch.symbol import Symbol, javascript

NAMES = ("depth", "heads", "head_dim", "mlp_dim")


def formulas(name: str) -> dict[str, str]:
    """JavaScript of a flat model's costs over the four dials."""
    sketch = edit(zoo.get(name), **{n: [Symbol(n)] for n in NAMES})
    return {
        "params": javascript(params(sketch).total),
        "flops": javascript(forward_flops(sketch)),
        "memory": javascript(activation_bytes(sketch, Symbol("batch"), "amp", True)),
        "kv": javascript(kv_bytes(sketch)),
    }


def designs(n: int) -> list[dict[str, int]]:
    """Random settings of the dials."""
    rng = random.Random(0)
    return [
        {
            "depth": rng.randint(1, 48),
            "heads": rng.randint(1, 64),
            "head_dim": rng.randint(1, 256),
            "mlp_dim": rng.randint(1, 16384),
            "batch": rng.randint(1, 512),
        }
        for _ in range(n)
    ]


def expected(name: str, design: dict[str, int]) -> dict[str, int]:
    """Python's numbers for one design."""
    settings = {n: [design[n]] for n in NAMES}
    sketch = edit(zoo.get(name), **settings)
    return {
        "params": params(sketch).total,
        "flops": forward_flops(sketch),
        "memory": activation_bytes(sketch, design["batch"], "amp", True),
        "kv": kv_bytes(sketch),
    }


@pytest.mark.skipif(shutil.which("node") is None, reason="node runs the printed JavaScript; not installed here")
@pytest.mark.parametrize("name", ["vit_b", "gpt2", "crammed_bert", "xcit_s12", "tnt_s", "nystromformer_text"])
def test_javascript_gives_pythons_numbers(name: str) -> None:
    """Over random designs, exactly."""
    cases = designs(50)
    body = ",".join(f"{key}:{text}" for key, text in formulas(name).items())
    script = (
        f"const out=[];for(const {{depth,heads,head_dim,mlp_dim,batch}} of {json.dumps(cases)})"
        f"out.push({{{body}}});console.log(JSON.stringify(out))"
    )
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [expected(name, case) for case in cases]


def test_symbols_read_well() -> None:
    """Trivial operations are folded, precedence is kept."""
    x, y = Symbol("x"), Symbol("y")
    assert javascript(0 * x + 1 * y) == "y"
    assert javascript((x + 1) * y - (x - y)) == "(x+1)*y-(x-y)"
    assert javascript(2 * (3 * x)) == "6*x"
    assert javascript(-(-x // 7)) == "0-Math.floor((0-x)/(7))"
    assert javascript(x**2) == "x*x"
    assert javascript(x - 5 + (-3)) == "x-5+(-3)"


def test_a_million_designs_in_a_blink() -> None:
    """Parameters, operations, memory and cache of a million ViTs in under 0.4 s of one core."""
    np = pytest.importorskip("numpy", reason="numpy is a core dependency, absent only in a broken install")
    rng = np.random.default_rng(0)
    n = 1_000_000
    columns = {name: rng.integers(1, top, n) for name, top in zip(NAMES, (48, 64, 128, 8192), strict=True)}
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        costs = cost(edit(zoo.get("vit_b"), **{name: [column] for name, column in columns.items()}))
        total = costs.params.total
        best = min(best, time.process_time() - start)
    at = {name: int(column[123_456]) for name, column in columns.items()}
    assert total[123_456] == params(redesign(zoo.get("vit_b"), **at)).total
    assert best < 0.4
