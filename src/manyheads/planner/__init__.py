"""From a model and a budget to redesigns with reasons and warnings: `plan(arch, Budget(params=0.5))`.

Planning needs numpy alone; torch is imported only to measure."""

from .constraints import Budget, Limits
from .costs import Rest, Use
from .design import Design
from .plan import Front, Plan, plan
from .rules import Remark

__all__ = ["Budget", "Design", "Front", "Limits", "Plan", "Remark", "Rest", "Use", "plan"]
