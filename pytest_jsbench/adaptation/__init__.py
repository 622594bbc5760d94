"""
Schemas said in what one provider takes, with a ledger of what that changed.

What does it is imported from its module (`adapting`, `subsets`), since most runs send schemas as they are.
"""

from __future__ import annotations

from pytest_jsbench.adaptation.changes import Adapted, Change, ChangeKind, Inexpressible, Mode

__all__ = ["Adapted", "Change", "ChangeKind", "Inexpressible", "Mode"]
