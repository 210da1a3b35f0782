"""lm-evaluation-harness scores an exported model with its `hf` backend, and its numbers are ours.

The harness brings two dozen packages, so it is no dependency: docs/text.md says how to install it beside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from manyheads.arch.families import gpt2
from manyheads.data.text.vocabulary import Vocabulary, load
from manyheads.models.generate import Sampling, generate
from manyheads.models.store import load as load_model
from manyheads.runs import Run
from manyheads.tasks import LanguageModel, to_dict
from manyheads.train.loop import train
from tests.specs import run_spec

pytestmark = pytest.mark.slow  # a minute: the harness imports for 20 seconds, and the model is trained
lm_eval = pytest.importorskip("lm_eval", reason="lm-evaluation-harness is no dependency; pip install lm-eval")
door = pytest.importorskip("manyheads.interop.hf", reason="transformers is in the hf extra")

ARCH = gpt2(64, 2, 4, 16, 128, vocab=2048, tokens=64, positions=64)
# fmt: off
CHOICES = [
    ("Once upon a", [" time", " dog", " ran"]), ("Once upon a time, there was a little", [" girl", " said", " to"]),
    ("He was very", [" happy", " the", " day"]), ("She wanted to", [" play", " was", " a"]),
    ("They played in the", [" park", " and", " said"]), ("The dog was so", [" happy", " once", " there"]),
]
# fmt: on
CHOICE = """
task: stories_next_word
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{context}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: 0
target_delimiter: ""
metric_list: [{{metric: acc}}]
"""
WRITE = """
task: stories_go_on
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{context}}}}"
doc_to_target: "{{{{written}}}}"
target_delimiter: ""
generation_kwargs: {{until: ["<|endoftext|>"], max_gen_toks: 12, do_sample: false}}
metric_list: [{{metric: exact_match}}]
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A GPT that has read some of the embedded stories."""
    folder = tmp_path_factory.mktemp("runs") / "gpt"
    recipe = {"batch": 16, "basis": {"kind": "steps", "amount": 250}, "lr": 3e-3, "evaluate_every": 0}
    spec = run_spec(ARCH, to_dict(LanguageModel(tokens=64, test_limit=32)), recipe, 0)
    train(Run.create(folder, spec), device="cpu", progress="none")
    return load_model(folder / "model").eval()


def written(model: Any, words: Vocabulary, context: str) -> str:
    """The likeliest continuation, by the generation of this package."""
    ids = torch.tensor(words.encode([context]))
    continuation = generate(model, ids, 12, sampling=Sampling(temperature=0), stop=words.role("end"))
    return words.decode(continuation.ids[0, ids.shape[1] :].tolist())


def chance(model: Any, words: Vocabulary, context: str, choice: str) -> float:
    """Log-likelihood of a choice after its context, by hand."""
    first, whole = words.encode([context, context + choice])
    assert whole[: len(first)] == first
    with torch.no_grad():
        logs = model(torch.tensor([whole]))[0].log_softmax(-1)
    return sum(float(logs[place - 1, whole[place]]) for place in range(len(first), len(whole)))


def test_the_harness_scores_what_we_score(trained: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A choice of next words, and stories gone on with in one batch of prompts of different lengths: padded in front,
    with a cache."""
    from lm_eval.tasks import TaskManager

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / "cache"))
    words = load("stories", tmp_path)
    door.export(trained, tmp_path / "model", tokenizer=words)
    file = tmp_path / "rows.jsonl"
    rows = [
        {"context": context, "choices": choices, "written": written(trained, words, context)}
        for context, choices in CHOICES
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    for name, text in (("choice", CHOICE), ("write", WRITE)):
        (tasks / f"{name}.yaml").write_text(text.format(file=file), encoding="utf-8")
    scores = lm_eval.simple_evaluate(
        model="hf",
        model_args={"pretrained": str(tmp_path / "model"), "dtype": "float32"},
        device="cpu",
        batch_size=6,
        tasks=["stories_next_word", "stories_go_on"],
        bootstrap_iters=0,
        log_samples=True,
        task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
    )
    assert scores["results"]["stories_go_on"]["exact_match,none"] == 1.0
    ours = [[chance(trained, words, row["context"], choice) for choice in row["choices"]] for row in rows]
    right = sum(max(row) == row[0] for row in ours) / len(ours)
    assert scores["results"]["stories_next_word"]["acc,none"] == pytest.approx(right)
    assert right > 0.5  # a third by chance
    for sample in scores["samples"]["stories_next_word"]:
        theirs = [float(answer[0][0]) for answer in sample["resps"]]
        assert theirs == pytest.approx(ours[sample["doc_id"]], abs=1e-4)
