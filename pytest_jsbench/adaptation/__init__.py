"""
Adapts a schema to the subset of JSON Schema that one provider takes, and lists each change.

`adapter` runs `narrowing` in a child process, by one of the `subsets`; import each from its module, since most runs
send schemas as they are. `bounding` narrows a schema for a small model.
"""

from __future__ import annotations

from pytest_jsbench.adaptation.adapter import Adapted, Change, ChangeKind, Inexpressible, Mode

__all__ = ["Adapted", "Change", "ChangeKind", "Inexpressible", "Mode"]
