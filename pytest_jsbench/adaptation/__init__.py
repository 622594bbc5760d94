"""
Adapts a schema to the subset of JSON Schema that one provider takes, and lists each change.

`adapter` has a child process run `narrowing`, by one of the `subsets`, and `bounding`, which narrows a schema for a
small model; most runs send schemas as they are, and import neither.
"""

from __future__ import annotations

from pytest_jsbench.adaptation.adapter import Adapted, Change, ChangeKind, Inexpressible, Mode, changes_by_engine

__all__ = ["Adapted", "Change", "ChangeKind", "Inexpressible", "Mode", "changes_by_engine"]
