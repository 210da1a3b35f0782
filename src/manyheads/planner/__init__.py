"""From a model and a budget to redesigns with reasons and warnings: `plan(arch, Budget(params=0.5))`. numpy alone;
torch is imported only to measure."""

from .budget import Budget
from .limits import Limits
from .notes import Note
from .plan import Design, Front, Plan, plan
from .use import Rest, Use

__all__ = ["Budget", "Design", "Front", "Limits", "Note", "Plan", "Rest", "Use", "plan"]
