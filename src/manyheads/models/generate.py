"""Text from a language model, token by token, with a cache of keys and values.

text = generate(model, prompt, 200, sampling=Sampling(temperature=0.8, top_k=40), stop=end)
text.ids, text.cache_bytes
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from manyheads.nn.cache import Cache
from manyheads.spec.arch import Arch
from manyheads.spec.errors import UserError
from manyheads.spec.field_checks import between
from manyheads.spec.parts import Lm, Token

Ids = Int[Tensor, "batch tokens"]
Logits = Float[Tensor, "batch vocab"]


@dataclass(frozen=True)
class Sampling:
    """How a token is drawn. `temperature` 0 takes the likeliest token. `top_k` keeps that many of the likeliest (0: all),
    `top_p` the likeliest that together have that probability (1: all). On one device, the same seed draws the same."""

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise UserError(f"temperature is {self.temperature}; write 0 for the likeliest token, or a number above it")
        if self.top_k < 0 or not 0 < self.top_p <= 1:
            raise UserError(
                f"top_k is {self.top_k} and top_p {self.top_p}; write a whole number (0: all) and a share of 1"
            )

        between("seed", self.seed, 0, 2**63 - 1, whole=True)

    def draw(self, logits: Logits, dice: torch.Generator) -> Int[Tensor, "batch 1"]:
        """One token for each row."""
        if self.temperature == 0:
            return logits.argmax(dim=-1, keepdim=True)
        logits = logits.float() / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if self.top_p < 1:
            chances, order = logits.softmax(dim=-1).sort(dim=-1, descending=True)
            beyond = chances.cumsum(dim=-1) - chances >= self.top_p  # the likeliest is never beyond
            logits = logits.masked_fill(torch.zeros_like(beyond).scatter(1, order, beyond), -torch.inf)
        return torch.multinomial(logits.softmax(dim=-1), 1, generator=dice)


USUAL = Sampling()


@dataclass(frozen=True)
class Generated:
    """Prompts and the tokens generated after them. `cache_bytes` is the memory of keys and values, 0 without a cache.
    `first` is the time in seconds for the prompt and the first token, `seconds` the time for the other tokens."""

    ids: Ids
    prompt: int
    cache_bytes: int
    first: float
    seconds: float

    @property
    def new(self) -> int:
        """Tokens generated for each prompt."""
        return self.ids.shape[1] - self.prompt


def positions(arch: Arch) -> int:
    """How many tokens a language model can read. Other models are refused."""
    if not isinstance(arch.head, Lm) or not isinstance(arch.embed, Token):
        raise UserError(
            f"a {arch.family} model with a {type(arch.head).__name__} head writes no text; take gpt2 or llama"
        )
    return arch.embed.places or arch.stages[0].tokens


@torch.no_grad()
def generate(
    model: nn.Module,
    prompt: Ids,
    new: int,
    *,
    sampling: Sampling = USUAL,
    stop: int | None = None,
    cached: bool = True,
    capture: bool | None = None,
) -> Generated:
    """Generate up to `new` tokens after each prompt (all of one length), until every row has reached `stop`.

    When the model's positions are used up, the later half of the tokens is read again from position 0 and generation
    continues after it. `cached=False` reads all tokens at every step, for comparison. `capture` replays the step of a
    token as one CUDA graph, which is the default on a GPU."""
    arch = model.arch
    assert isinstance(arch, Arch)
    limit = positions(arch)
    if prompt.ndim != 2 or not 0 < prompt.shape[1] <= limit:
        raise UserError(
            f"the prompt is of shape {tuple(prompt.shape)}; this model takes batch x tokens, of 1 to {limit} tokens"
        )
    if new < 1:
        raise UserError(f"{new} tokens to generate; write 1 or more")
    device = prompt.device
    dice = torch.Generator(device).manual_seed(sampling.seed)
    reader = Reader(
        model, min(limit, prompt.shape[1] + new), cached, device.type == "cuda" if capture is None else capture
    )
    training = model.training
    model.eval()
    try:
        begun = time.perf_counter()
        rows = [prompt]
        open_rows = torch.ones(len(prompt), 1, dtype=torch.bool, device=device)
        unread, first, count = prompt, 0.0, 0
        while count < new:
            token = sampling.draw(reader(unread), dice)
            if stop is not None:
                token = token.where(open_rows, stop)
                open_rows &= token != stop
            rows.append(token)
            unread, count = token, count + 1
            if count == 1:
                first = _now(device) - begun
            if stop is not None and not bool(open_rows.any()):
                break
        return Generated(torch.cat(rows, dim=1), prompt.shape[1], reader.bytes, first, _now(device) - begun - first)
    finally:
        model.train(training)


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


class Reader:
    """Computes the logits of the next token from tokens as they come. It sees at most the last `room` tokens."""

    def __init__(self, model: nn.Module, room: int, cached: bool, capture: bool) -> None:
        self.model, self.room, self.capture = model, room, capture
        device = next(model.parameters()).device
        self.cache = Cache(len(model.blocks), room, device) if cached else None
        self.seen: list[Ids] = []
        self.length = 0
        self.replay: Callable[[Ids], Logits] | None = None

    @property
    def bytes(self) -> int:
        """Memory of the cache."""
        return 0 if self.cache is None else self.cache.bytes

    def __call__(self, ids: Ids) -> Logits:
        """Logits of the token after `ids`, which continue the tokens of the calls before."""
        self.seen.append(ids)
        self.length += ids.shape[1]
        if self.length > self.room:
            ids = torch.cat(self.seen, dim=1)[:, -max(1, self.room // 2) :]
            self.seen, self.length = [ids], ids.shape[1]
            if self.cache is not None:
                self.cache.clear()
        if self.cache is None:
            return self._last(self.model.features(torch.cat(self.seen, dim=1)))
        if self.capture and ids.shape[1] == 1 and self.cache.length:
            self.replay = self.replay or _recorded(self._step, ids)
            logits = self.replay(ids)
        else:
            logits = self._step(ids)
        self.cache.advance(ids.shape[1])
        return logits

    def _step(self, ids: Ids) -> Logits:
        return self._last(self.model.features(ids, cache=self.cache))

    def _last(self, x: Float[Tensor, "batch tokens width"]) -> Logits:
        return self.model.head(x[:, -1], self.model.embed.vocab.weight)


def _recorded(step: Callable[[Ids], Logits], ids: Ids) -> Callable[[Ids], Logits]:
    """`step` as a CUDA graph. Warming up is harmless: `step` writes the same keys and values however often it runs."""
    place = ids.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(place)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        logits = step(place)

    def replay(new: Ids) -> Logits:
        place.copy_(new)
        graph.replay()
        return logits

    return replay
