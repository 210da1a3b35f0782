"""A batch that grows with what is spent of the budget: Crammed BERT's ramp.

Data is dealt in parts of `Recipe.rows` samples, numbered through the whole run, and a step takes as many as its moment
allows: the mean of their gradients makes one update. What a run has seen is its parts, whatever the steps."""

from __future__ import annotations

from manyheads.spec.errors import UserError
from manyheads.spec.recipe import Recipe
from manyheads.tasks import Task


def check(recipe: Recipe, task: Task) -> None:
    """Refuse a task whose data comes again after so many whole batches."""
    if recipe.ramp and (replay := getattr(task, "replay", 0)):
        raise UserError(
            f"recipe.ramp is {recipe.ramp} and the task replays {replay} batches, which have no one size where "
            "the batch grows; write ramp=0, or replay=0"
        )


def parts(recipe: Recipe, progress: float) -> int:
    """Parts that a step which begins at `progress` takes: 1 at first, one more after each equal share of the ramp, at
    its end all. For 64 parts of 128 and a ramp of 0.6 that is the original's min(128 (floor(t / 0.6 x 64) + 1),
    8192)."""
    if not recipe.ramp:
        return recipe.accumulate
    return min(recipe.accumulate, int(progress / recipe.ramp * recipe.accumulate) + 1)


def made(recipe: Recipe, total: int) -> tuple[int, ...]:
    """Parts made before each step of a run of `total` parts, and in the end. Progress is the share of them that is
    made, as by the clock it is the share of time, which is spent part by part; the last step takes what is left."""
    found = [0]
    while found[-1] < total:
        found.append(min(total, found[-1] + parts(recipe, found[-1] / total)))
    return tuple(found)
