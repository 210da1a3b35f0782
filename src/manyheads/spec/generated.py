"""Settings of the long-range tasks (LRA, 2011.04006) whose samples are generated: trees, scenes and made-up documents.

The generators are in `data.lra`. A generated set is kept in a file named by a hash of its settings, so a set is
generated again after a default or a field has changed here."""

from __future__ import annotations

from dataclasses import dataclass

from manyheads.spec.field_checks import between

from .errors import UserError
from .task import TaskPart

# Tokens of ListOps by id. Id 0 is padding, which is masked.
LISTOPS_TOKENS = ("", *"0123456789", "[MIN", "[MAX", "[MED", "[SM", "]")
LISTOPS_CLASSES = 10  # the value of a tree is a digit


@dataclass(frozen=True)
class Grammar(TaskPart):
    """Which ListOps trees are grown. A node at a depth below `depth` (the root's is 1) is an operator with probability
    1/4, with 2 to `arity` arguments, and otherwise a digit. A tree is accepted when it has `shortest` to `longest`
    tokens. The defaults are LRA's: more than 500 and fewer than 2,000 tokens, brackets counted."""

    depth: int = 10
    arity: int = 10
    shortest: int = 501
    longest: int = 1999

    def __post_init__(self) -> None:
        between("Grammar.depth", self.depth, 2, 60, whole=True)
        between("Grammar.arity", self.arity, 2, 1000, whole=True)
        between("Grammar.shortest", self.shortest, 4, whole=True)
        between("Grammar.longest", self.longest, 4, whole=True)
        largest, nodes = 1, 1  # tokens of the largest tree, counted no further than `longest`; nodes of its last level
        for _ in range(self.depth - 1):
            nodes *= self.arity
            largest += nodes + nodes // self.arity
            if largest > self.longest:
                break
        if self.shortest > min(self.longest, largest):
            raise UserError(
                f"Grammar(depth={self.depth}, arity={self.arity}) has trees of 4 to {min(self.longest, largest):,}"
                f" tokens, and shortest={self.shortest}; write at most that"
            )


@dataclass(frozen=True)
class Scene(TaskPart):
    """What a Pathfinder picture shows, in pixels.

    Each of the two long contours has `contour` dashes; each of at most `distractors` short ones has `distractor`
    dashes. A contour turns by at most `turn` degrees between dashes. The middle lines of two contours, and of two
    stretches of one contour that are not neighbours, keep a distance of `clearance`; dots keep a little more. The
    contours grow from two seeds at the distance `apart`. `marker` is the radius of a dot."""

    side: int = 32
    contour: int = 14
    distractors: int = 5
    distractor: int = 4
    dash: float = 2.0
    gap: float = 2.0
    turn: float = 75.0
    clearance: float = 3.5
    apart: float = 7.0
    marker: float = 1.75

    def __post_init__(self) -> None:
        between("Scene.side", self.side, 12, 128, whole=True)
        between("Scene.contour", self.contour, 1, 64, whole=True)
        between("Scene.distractors", self.distractors, 0, 64, whole=True)
        between("Scene.distractor", self.distractor, 1, 64, whole=True)
        limits = {
            "dash": (1, 4),
            "gap": (1, 4),
            "turn": (1, 90),
            "clearance": (2, 8),
            "apart": (4, self.side / 2),
            "marker": (1, 4),
        }
        for name, (low, high) in limits.items():
            between(f"Scene.{name}", getattr(self, name), low, high)
            object.__setattr__(self, name, float(getattr(self, name)))  # 2 and 2.0 are one setting and hash alike


@dataclass(frozen=True)
class Topics(TaskPart):
    """Documents of `shortest` to `longest` bytes of made-up words, each about one of `count` topics.

    A `share` of a document's words belongs to its topic, and of these the part `taste` are the topic's favourite
    words. `seed` draws the alphabets, the words and the favourites."""

    count: int = 32
    share: float = 0.2
    taste: float = 0.0
    shortest: int = 1000
    longest: int = 4000
    seed: int = 0

    def __post_init__(self) -> None:
        between("Topics.count", self.count, 2, 10_000, whole=True)
        for name in ("share", "taste"):
            between(f"Topics.{name}", getattr(self, name), 0, 1)
            object.__setattr__(self, name, float(getattr(self, name)))  # 1 and 1.0 are one setting and hash alike
        between("Topics.shortest", self.shortest, 1, whole=True)
        between("Topics.longest", self.longest, 1, whole=True)
        between("Topics.seed", self.seed, 0, whole=True)
        if self.shortest > self.longest:
            raise UserError(
                f"Topics.shortest is {self.shortest} and longest {self.longest}; write at most {self.longest}"
            )
