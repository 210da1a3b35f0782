"""Named recipes of the language experiments, each with its task: what the originals do, and beside it what should be
done.

Corpora are named as the commands in `docs/text.md` write them. We hold 8,540 TinyStories (8,542, less two that also
stand in the validation head), not the first 12,000 of which the originals made theirs: losses are comparable between
arms, not with the printed 2.47 and 2.41."""

from __future__ import annotations

from collections.abc import Callable

from manyheads.spec.rates import Rates
from manyheads.spec.recipe import Basis, Recipe
from manyheads.spec.schedule import Schedule
from manyheads.tasks import Glue, LanguageModel, MaskedLanguage

GPT2_IDS = 50_257


def stories_repository() -> Recipe:
    """The setting of the repository behind Table 2's 89 M model (Tiny-Stories-GPT): 2,000 steps of 128 sequences of 64
    tokens, AdamW at a constant 3e-4 with PyTorch's defaults on every parameter, dropout 0.2, float32, nothing clipped.

    Its evaluation draws 200 random batches every 500 steps; this one reads all that is held out, at the same steps."""
    return Recipe(
        batch=128,
        basis=Basis("steps", 2000),
        lr=3e-4,
        schedule=Schedule("constant"),
        weight_decay=0.01,
        decay="all",
        clip=0.0,
        rates=Rates(dropout=0.2, attention=0.2),
        precision="fp32",
        evaluate_every=500,
        checkpoint_every=500,
    )


def stories_repository_task(data: str = "shards:tinystories_lines") -> LanguageModel:
    """Stories joined by a line break, no end-of-text token; sequences from anywhere, with repetition; the last tenth of
    the same ids held out."""
    return LanguageModel(data, tokens=64, vocab=GPT2_IDS, order="random", held=0.1)


def stories_proper(steps: int = 2000) -> Recipe:
    """The same budget done right: warm-up and cosine, clipping, decay on matrices alone, no dropout, bfloat16 on a
    GPU."""
    return Recipe(
        batch=128,
        basis=Basis("steps", steps),
        lr=1e-3,
        schedule=Schedule("cosine", warmup=0.05, end=0.1),
        betas=(0.9, 0.95),
        weight_decay=0.1,
        clip=1.0,
        evaluate_every=0.1,
        checkpoint_every=500,
    )


def stories_proper_task(data: str = "shards:tinystories", tokens: int = 64) -> LanguageModel:
    """Stories apart by end-of-text tokens, each sequence once an epoch; text of the official validation split held
    out."""
    return LanguageModel(data, tokens=tokens, vocab=GPT2_IDS)


DAY = Basis("seconds", 24 * 3600)


def crammed(basis: Basis = DAY, batch: int = 8192, rows: int = 128) -> Recipe:
    """Crammed BERT's pretraining (2212.14034): AdamW 1e-3, betas 0.9 and 0.98, eps 1e-12, decay 0.01, clipped at 0.5,
    and a triangle over the budget that starts at a quarter, peaks at three quarters and ends at 0. The batch grows from
    `rows` to 8,192 over the first 60 % of the budget. No dropout.

    The original's budget is 24 hours of wall-clock time, in which a shallower model sees more tokens: for equal tokens
    write `Basis("tokens", ...)`, with which rate and batch go by tokens, too. fp16 there, bfloat16 here."""
    parts = max(1, batch // rows)
    return Recipe(
        batch=batch,
        basis=basis,
        lr=1e-3,
        schedule=Schedule("triangle", warmup=0.75, start=0.25),
        betas=(0.9, 0.98),
        eps=1e-12,
        weight_decay=0.01,
        clip=0.5,
        accumulate=parts,
        ramp=0.6 if parts > 1 else 0.0,
        evaluate_every=0.05,
        checkpoint_every=0.02,
    )


def crammed_task(data: str = "shards:wiki_bert", vocab: int = 30_522) -> MaskedLanguage:
    """128 tokens, exactly 32 of them predicted, special tokens chosen like any other, the corpus read in its own
    order."""
    return MaskedLanguage(data, tokens=128, vocab=vocab, share=0.25, protect=False, order="given")


def glue() -> Recipe:
    """Crammed BERT's fine-tuning, one setting for all tasks: 5 epochs, batch 16, AdamW 4e-5 with betas 0.9 and 0.98 and
    eps 1e-6, no decay, nothing clipped, 10 % warm-up and cosine, dropout 0.1. The last epoch's score counts, not the
    best."""
    return Recipe(
        batch=16,
        basis=Basis("epochs", 5),
        lr=4e-5,
        schedule=Schedule("cosine", warmup=0.1),
        betas=(0.9, 0.98),
        eps=1e-6,
        weight_decay=0.0,
        clip=0.0,
        rates=Rates(dropout=0.1, attention=0.1),
        evaluate_every=0.2,
        checkpoint_every=0.2,
    )


# what a person may write for --recipe: the recipe, and the task that belongs to it
NAMED: dict[str, tuple[Callable[[], Recipe], Callable[[], LanguageModel | MaskedLanguage | Glue]]] = {
    "stories_repository": (stories_repository, stories_repository_task),
    "stories": (stories_proper, stories_proper_task),
    "crammed": (crammed, crammed_task),
    "glue": (glue, Glue),
}
