"""Adapts schemas in a child process, within bounds of time and memory, since a hostile schema can take very long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pytest_jsbench.adaptation.changes import Adapted, Inexpressible
from pytest_jsbench.core.child_process import ChildNotStarted
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, guarded_calls
from pytest_jsbench.core.json_values import from_json

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.changes import Mode
    from pytest_jsbench.core.cases import Schema

#: the largest real schemas take half a second
SECONDS = 10.0


def adapt_within(schema: Schema, subset: str, mode: Mode, *, seconds: float = SECONDS) -> Adapted | Inexpressible:
    """Adapt the schema to the subset of that name, in the child process; EngineError for a fault of the adaptation."""
    try:
        found = guarded_calls().call(f"{__name__}:adapted_json", schema, subset, mode, seconds=seconds)
    except BoundExceeded as exceeded:
        return Inexpressible(keyword="", path="", message=f"the schema cannot be adapted {exceeded}")
    except (CallBroke, ChildNotStarted) as error:
        raise EngineError(f"a fault of the adaptation, {error}") from None
    return from_json(Inexpressible, found) if "message" in found else from_json(Adapted, found)


def adapted_json(schema: Schema, subset: str, mode: Mode) -> dict[str, Any]:
    """The result of adapting as JSON values; the child calls this."""
    from pytest_jsbench.adaptation.narrowing import adapt
    from pytest_jsbench.adaptation.subsets import PROFILES, SUBSETS

    return asdict(adapt(schema, {**SUBSETS, **PROFILES}[subset], mode))


def adapter(said: str) -> Callable[[Schema], Adapted | Inexpressible] | None:
    """The function that adapts a schema in that mode; None for `verbatim`, ValueError for an unknown mode or subset."""
    mode, _, subset = said.partition(":")
    if said == "verbatim":
        return None
    from pytest_jsbench.adaptation.subsets import SUBSETS, find_subset

    if mode not in {"narrow", "relax"} or find_subset(subset) is None:
        raise ValueError(f"expected verbatim, or narrow or relax and one of {', '.join(SUBSETS)}, found {said!r}")
    return partial(adapt_within, subset=subset, mode=cast("Mode", mode))
