"""Schemas said in what one provider takes, with a ledger of what that changed."""

from pytest_jsbench.adaptation.adapting import adapt
from pytest_jsbench.adaptation.model import Adapted, Change, ChangeKind, Inexpressible, Mode
from pytest_jsbench.adaptation.subsets import ANTHROPIC, GEMINI, OPENAI, SUBSETS, Subset

__all__ = [
    "ANTHROPIC",
    "GEMINI",
    "OPENAI",
    "SUBSETS",
    "Adapted",
    "Change",
    "ChangeKind",
    "Inexpressible",
    "Mode",
    "Subset",
    "adapt",
]
