"""What transformers' own tests ask of every model, written anew: a function for each promise, called with the name of a
family. A `UserError` says that the family refuses it, and why."""

from __future__ import annotations

import copy
import inspect
import pickle
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor

import manyheads.interop.hf as door
from manyheads.models.build import build
from manyheads.nn.block import Block
from manyheads.spec.arch import Arch
from manyheads.spec.parts import Classify, Coordinates, Features, Lm, Masked, Pair, Token
from tests.models.tiny import ORIGINALS, inputs

# transformers has no class for a pair of texts or for coordinates; a model without a head has no logits to check
FAMILIES = {name: arch for name, arch in ORIGINALS.items() if not isinstance(arch.head, Pair | Coordinates | Features)}
TEXTS = [name for name, arch in FAMILIES.items() if isinstance(arch.embed, Token)]
CAUSAL = [name for name in TEXTS if isinstance(FAMILIES[name].head, Lm)]
Check = Callable[[str], None]


def auto(arch: Arch) -> Any:
    """The Auto class that a record belongs to."""
    match arch.head:
        case Lm():
            return transformers.AutoModelForCausalLM
        case Masked():
            return transformers.AutoModelForMaskedLM
        case Classify() if isinstance(arch.embed, Token):
            return transformers.AutoModelForSequenceClassification
    return transformers.AutoModelForImageClassification


def model_of(name: str, **settings: Any) -> Any:
    """The family's tiny model in float64, in evaluation."""
    torch.manual_seed(0)
    model = auto(FAMILIES[name]).from_config(door.ManyheadsConfig(arch=FAMILIES[name]), **settings).double().eval()
    with torch.no_grad():  # most biases and scales start constant, which would hide a mistake
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def batch_of(name: str, rows: int = 3, labels: bool = False) -> dict[str, Tensor]:
    """A batch by its keywords."""
    arch = FAMILIES[name]
    (x,) = inputs(arch, rows, dtype=torch.float64)
    if arch.dialect == "roberta":  # where an id is that of padding, positions that are not given leave it out
        x = x.where(x != arch.embed.first - 1, 0)
    batch = {"input_ids" if name in TEXTS else "pixel_values": x}
    if labels:
        batch["labels"] = x if isinstance(arch.head, Lm | Masked) else torch.arange(rows) % 2
    return batch


def near(a: Tensor, b: Tensor) -> None:
    """Equal but for the rounding of float64."""
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def gradients(model: Any, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss and gradients of one step, always with the same dropout."""
    torch.manual_seed(1)
    model.zero_grad()
    loss = model(**batch).loss
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def save_and_load(name: str) -> None:
    """A folder gives the same model back."""
    model, batch = model_of(name), batch_of(name)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again, report = auto(FAMILIES[name]).from_pretrained(folder, output_loading_info=True, dtype=torch.float64)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert torch.equal(again.eval()(**batch).logits, model(**batch).logits)


def pickles(name: str) -> None:
    """A model goes to another process, and is copied."""
    model, batch = model_of(name), batch_of(name)
    logits = model(**batch).logits
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(again(**batch).logits, logits)


def configuration(name: str) -> None:
    """A configuration is saved, loaded, printed and copied."""
    config = door.ManyheadsConfig(arch=FAMILIES[name], num_labels=3)
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        again = transformers.AutoConfig.from_pretrained(folder)
    expected = config.to_dict() | {"_name_or_path": ""}
    for other in (again, copy.deepcopy(config), door.ManyheadsConfig.from_dict(config.to_dict())):
        assert other.to_dict() | {"_name_or_path": ""} == expected
    assert repr(config)
    assert config.num_labels == 3


def missing_weights(name: str) -> None:
    """What a checkpoint lacks is drawn, not left as memory had it."""
    model = model_of(name)
    again = type(model).from_pretrained(None, config=model.config, state_dict={})
    for at, parameter in again.named_parameters():
        assert parameter.isfinite().all(), at
        assert parameter.abs().max() < 20, at
    drawn = build(FAMILIES[name], seed=0)
    for (at, a), b in zip(again.model.named_parameters(), drawn.parameters(), strict=True):
        assert a.numel() < 100 or (a.std() - b.std()).abs() <= 0.3 * b.std(), f"{at} is not drawn as its family's"


def signature(name: str) -> None:
    """The first argument is the main input, and the others have transformers' names."""
    model = model_of(name)
    names = list(inspect.signature(model.forward).parameters)
    assert names[0] == model.main_input_name
    wanted = {"output_attentions", "output_hidden_states", "return_dict", "labels", "kwargs"}
    wanted |= {"attention_mask", "position_ids", "inputs_embeds"} if name in TEXTS else set()
    wanted |= {"past_key_values", "use_cache", "logits_to_keep"} if name in CAUSAL else set()
    assert wanted <= set(names)


def training(name: str) -> None:
    """A step reaches every parameter."""
    model = model_of(name).train()
    _, found = gradients(model, batch_of(name, labels=True))
    assert found.keys() == {at for at, _ in model.named_parameters()}
    assert all(gradient.isfinite().all() for gradient in found.values())


def gradient_checkpointing(name: str) -> None:
    """Recomputed activations give the same loss and gradients, by both of PyTorch's ways."""
    model, batch = model_of(name).train(), batch_of(name, labels=True)
    loss, kept = gradients(model, batch)
    ran: list[int] = []
    first = next(part for part in model.modules() if isinstance(part, Block))
    first.register_forward_pre_hook(lambda *_: ran.append(1))
    for reentrant in (False, True):
        ran.clear()
        model.gradient_checkpointing_enable({"use_reentrant": reentrant})
        if reentrant:
            model.enable_input_require_grads()
        assert model.is_gradient_checkpointing
        again, recomputed = gradients(model, batch)
        assert len(ran) == 2, "the layer ran in the forward and again in the backward pass"
        assert torch.equal(loss, again)
        assert recomputed.keys() == kept.keys()
        for at, gradient in kept.items():
            near(recomputed[at], gradient)
    model.gradient_checkpointing_disable()
    assert not model.is_gradient_checkpointing


def hidden_states(name: str) -> None:
    """One before each layer and one after the last, which is the base model's result; gradients reach all of them."""
    model, batch = model_of(name), batch_of(name)
    states = model(**batch, output_hidden_states=True).hidden_states
    layers = sum(isinstance(part, Block) for part in model.modules())
    assert len(states) == layers + 1
    base = door.ManyheadsModel(model.config).double().eval()
    base.load_state_dict(model.state_dict())
    assert torch.equal(states[-1], base(**batch).last_hidden_state)
    assert states[-1].shape == (3, *states[-1].shape[1:-1], FAMILIES[name].stages[-1].width)
    model.config.output_hidden_states = True
    configured = model(**batch).hidden_states
    assert all(torch.equal(a, b) for a, b in zip(states, configured, strict=True))
    for state in states:
        state.retain_grad()
    model.normed(states[-2]).sum()
    out = model(**batch)
    for state in out.hidden_states:
        state.retain_grad()
    out.logits.square().sum().backward()
    assert all(state.grad is not None and state.grad.abs().max() > 0 for state in out.hidden_states[:-1])


def attention_maps(name: str) -> None:
    """With `eager`, one map for each layer, rows that sum to 1."""
    model, batch = model_of(name, attn_implementation="eager"), batch_of(name)
    maps = model(**batch, output_attentions=True).attentions
    assert len(maps) == sum(isinstance(part, Block) for part in model.modules())
    for weights in maps:
        assert weights.shape[0] == 3
        near(weights.sum(dim=-1), torch.ones_like(weights[..., 0]))


def eager_equals_sdpa(name: str) -> None:
    """Attention by either implementation gives the same, also where it is changed later, and with padding."""
    model, batch = model_of(name), batch_of(name)
    if name in TEXTS:
        batch["attention_mask"] = torch.ones_like(batch["input_ids"])
        batch["attention_mask"][1, -3:] = 0
    expected = model(**batch).logits
    model.set_attn_implementation("eager")
    assert model.config._attn_implementation == "eager"
    real = batch["attention_mask"].bool() if name in TEXTS and expected.ndim == 3 else slice(None)
    near(model(**batch).logits[real], expected[real])


@torch.no_grad()
def flex_equals_sdpa(name: str) -> None:
    """flex_attention gives the same."""
    model, batch = model_of(name), batch_of(name)
    expected = model(**batch).logits
    model.set_attn_implementation("flex_attention")
    near(model(**batch).logits, expected)


def batching(name: str) -> None:
    """A sample's result does not depend on those beside it."""
    model, batch = model_of(name), batch_of(name)
    whole = model(**batch, output_hidden_states=True)
    for row in range(3):
        alone = model(**{key: value[row : row + 1] for key, value in batch.items()}, output_hidden_states=True)
        near(alone.logits[0], whole.logits[row])
        for a, b in zip(alone.hidden_states, whole.hidden_states, strict=True):
            near(a[0], b[row])


def tuples(name: str) -> None:
    """A tuple holds what the dictionary holds, asked for by argument or by the configuration."""
    model, batch = model_of(name), batch_of(name, labels=True)
    out = model(**batch, output_hidden_states=True)
    plain = model(**batch, output_hidden_states=True, return_dict=False)
    assert isinstance(plain, tuple)
    assert torch.equal(plain[0], out.loss)
    assert torch.equal(plain[1], out.logits)
    assert all(torch.equal(a, b) for a, b in zip(plain[2], out.hidden_states, strict=True))
    model.config.return_dict = False
    assert isinstance(model(**batch), tuple)


def embeddings(name: str) -> None:
    """The input table can be read and replaced; the output matrix is what the logits are made with."""
    model, batch = model_of(name), batch_of(name)
    assert isinstance(model.get_input_embeddings(), torch.nn.Module)
    out, matrix = model(**batch, output_hidden_states=True), model.get_output_embeddings()
    if isinstance(FAMILIES[name].head, Lm | Masked):
        hidden, head = out.hidden_states[-1], model.model.head
        if getattr(head, "dense", None) is not None:
            hidden = head.dense_norm(torch.nn.functional.gelu(head.dense(hidden)))
        logits, cap = matrix(hidden), getattr(head.spec, "cap", None)
        near(logits if cap is None else cap * (logits / cap).tanh(), out.logits)
    else:
        assert matrix is None
    if name in TEXTS:
        table = torch.nn.Embedding(10, 10)
        model.set_input_embeddings(table)
        assert model.get_input_embeddings() is table


def resized_vocabulary(name: str) -> None:
    """More and fewer tokens, or a multiple: old rows stay, the record follows, and a folder keeps it."""
    model, before = model_of(name), FAMILIES[name].embed.vocab
    old = model.get_input_embeddings().weight.detach().clone()
    kept = {"input_ids": batch_of(name)["input_ids"] % (before - 5)}
    expected = model(**kept).logits
    for tokens in (before + 10, before - 5, before + 3):
        assert model.resize_token_embeddings(tokens).weight.shape[0] == tokens
        rows = min(tokens, before - 5)
        assert torch.equal(model.get_input_embeddings().weight[:rows], old[:rows])
        assert model.config.vocab_size == model.config.record().embed.vocab == model.model.arch.embed.vocab == tokens
        logits = model(**kept).logits
        if isinstance(FAMILIES[name].head, Lm | Masked):
            assert logits.shape[-1] == tokens
            near(logits[..., :rows], expected[..., :rows])
        else:
            near(logits, expected)
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in build(model.model.arch).parameters())
    assert model.resize_token_embeddings(pad_to_multiple_of=16).weight.shape[0] % 16 == 0
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = auto(FAMILIES[name]).from_pretrained(folder, dtype=torch.float64).eval()
    assert torch.equal(again(**kept).logits, model(**kept).logits)


def vectors_equal_ids(name: str) -> None:
    """`inputs_embeds` stands for what the ids look up."""
    model, batch = model_of(name), batch_of(name)
    vectors = model.get_input_embeddings()(batch["input_ids"])
    mask = torch.ones_like(batch["input_ids"])
    mask[0, -2:] = 0
    for given in ({}, {"attention_mask": mask}):
        assert torch.equal(model(inputs_embeds=vectors, **given).logits, model(**batch, **given).logits)


def positions(name: str) -> None:
    """0, 1, 2 are the positions that are not given; others change the result."""
    model, batch = model_of(name), batch_of(name)
    steps = torch.arange(batch["input_ids"].shape[1])
    expected = model(**batch).logits
    near(model(**batch, position_ids=steps.expand(3, -1)).logits, expected)
    near(model(**batch, position_ids=steps[None]).logits, expected)
    mask = torch.ones_like(batch["input_ids"])
    assert not torch.allclose(model(**batch, attention_mask=mask, position_ids=steps.flip(0)[None]).logits, expected)


def full_mask(name: str) -> None:
    """A mask of queries and keys: documents packed into one row give what they give apart."""
    model, ids = model_of(name), batch_of(name)["input_ids"][:1]
    cut, length = 5, ids.shape[1]
    number = (torch.arange(length) >= cut).long()
    seen = number[:, None] == number
    if name in CAUSAL:
        seen = seen.tril()
    places = torch.cat((torch.arange(cut), torch.arange(length - cut)))[None]
    added = torch.zeros(1, 1, length, length, dtype=torch.float64).masked_fill(~seen, torch.finfo(torch.float64).min)
    for mask in (seen[None, None], added):
        states = model(ids, attention_mask=mask, position_ids=places, output_hidden_states=True).hidden_states
        for part in (slice(0, cut), slice(cut, length)):
            alone = model(ids[:, part], output_hidden_states=True).hidden_states
            for a, b in zip(states, alone, strict=True):
                near(a[:, part], b)


def problem_types(name: str) -> None:
    """Classes, several labels at once, and regression have their own losses."""
    model, batch = model_of(name), batch_of(name)
    classes = model.config.num_labels
    for kind, labels in (
        ("single_label_classification", torch.tensor([0, 1, 1])),
        ("multi_label_classification", torch.ones(3, classes, dtype=torch.float64)),
    ):
        model.config.problem_type = kind
        loss = model(**batch, labels=labels).loss
        loss.backward()
        assert loss.isfinite()


def other_labels(name: str) -> None:
    """A classifier with another number of labels keeps everything else."""
    model = model_of(name)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = auto(FAMILIES[name]).from_pretrained(
            folder, num_labels=4, ignore_mismatched_sizes=True, dtype=torch.float64
        )
    assert again(**batch_of(name)).logits.shape == (3, 4)
    mine, theirs = model.state_dict(), again.state_dict()
    assert sum(torch.equal(mine[at], theirs[at]) for at in mine if mine[at].shape == theirs[at].shape) >= len(mine) - 4
    assert all(tensor.isfinite().all() and tensor.abs().max() < 20 for tensor in theirs.values())


def compiles_whole(name: str) -> None:
    """One graph without a break, with a mask, in evaluation and in training."""
    torch.compiler.reset()
    model, batch = model_of(name), batch_of(name, labels=True)
    if name in TEXTS:
        batch["attention_mask"] = torch.ones_like(batch["input_ids"])
        batch["attention_mask"][1, -3:] = 0
    expected = model(**batch)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    out = compiled(**batch)
    near(out.loss, expected.loss)
    model.train()
    compiled(**batch).loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def on_meta(name: str) -> None:
    """Built on the meta device, without memory."""
    with torch.device("meta"):
        model = auto(FAMILIES[name]).from_config(door.ManyheadsConfig(arch=FAMILIES[name]))
    assert all(parameter.is_meta for parameter in model.parameters())


# fmt: off
OF_ALL: tuple[Check, ...] = (
    save_and_load, pickles, configuration, missing_weights, signature, training, gradient_checkpointing, hidden_states,
    attention_maps, eager_equals_sdpa, flex_equals_sdpa, batching, tuples, embeddings, compiles_whole, on_meta,
)
OF_TEXTS: tuple[Check, ...] = (resized_vocabulary, vectors_equal_ids, positions, full_mask)
OF_CLASSIFIERS: tuple[Check, ...] = (problem_types, other_labels)
# fmt: on


def applicable(name: str) -> tuple[Check, ...]:
    """The checks that apply to a family."""
    classifies = isinstance(FAMILIES[name].head, Classify)
    return OF_ALL + OF_TEXTS * (name in TEXTS) + OF_CLASSIFIERS * classifies
