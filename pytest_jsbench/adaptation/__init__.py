"""
Adapt a schema to the subset of JSON Schema that a provider accepts, and list each change.

`adapter` runs `narrowing`, with one of the `subsets`, and `bounding`, which narrows a schema for a small model, in a
child process. `engine_changes` lists what an engine changed. Most runs send schemas unchanged and import none of them.
"""

from __future__ import annotations

from pytest_jsbench.adaptation.adapter import Adapted, Change, ChangeKind, Inexpressible, Mode

__all__ = ["Adapted", "Change", "ChangeKind", "Inexpressible", "Mode"]
