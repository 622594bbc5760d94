"""
Adapt a schema to the subset of JSON Schema that a provider accepts, and list each change.

`adapter` calls two modules in a child process: `narrowing`, which uses one of the `subsets`, and `bounding`, which
narrows a schema for a small model. `engine_changes` lists the changes that an engine made. `rewriting` calls
`reordering` and `inlining`, which keep the meaning of a schema, and `equivalence`. Most runs send schemas unchanged and
import none of these modules.
"""

from __future__ import annotations

from pytest_jsbench.adaptation.adapter import Adapted, Change, ChangeKind, Inexpressible, Mode

__all__ = ["Adapted", "Change", "ChangeKind", "Inexpressible", "Mode"]
