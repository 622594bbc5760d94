"""
Rewrite a schema into another schema that accepts the same instances, in a child process with limits.

`order` changes the order of properties, required names and enum values; `inline` replaces references by definitions.
Both rewritings keep the accepted instances by construction. In addition, an algebra of schemas compares both schemas; a
rewriting that it refutes is not used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, assert_never

from pytest_jsbench.adaptation.adapter import SECONDS, Change
from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.child_process import ChildNotStarted
from pytest_jsbench.core.errors import EngineError
from pytest_jsbench.core.guarded_calls import BoundExceeded, CallBroke, guarded_calls
from pytest_jsbench.core.json_values import from_json

#: Time limit for comparing the rewritten schema with the original, in seconds.
_PROOF_SECONDS = 2.0
#: Message for a rewriting that the comparison with the original schema refutes.
_REFUTED = "the rewritten schema does not accept the same answers as the original"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """A way to rewrite schemas, written as `inline`, `order`, or `order:SEED`."""

    kind: Literal["order", "inline"]
    #: Number that selects one of the orders; irrelevant for `inline`.
    seed: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of a rewriting; raise ValueError if it is invalid."""
        kind, separator, seed = text.partition(":")
        if kind == "inline" and not separator:
            return cls(kind="inline")
        if kind == "order" and (not separator or (seed.isascii() and seed.isdecimal() and len(seed) < 10)):
            return cls(kind="order", seed=int(seed or 0))
        raise ValueError(f"expected order, order:SEED or inline, found {text!r}")

    def __str__(self) -> str:
        return f"{self.kind}:{self.seed}" if self.seed else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """A rewritten schema that accepts the same instances as the original schema."""

    schema: Schema
    change: Change


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRewritten:
    """Reason why a schema was not rewritten, in one line."""

    message: str
    #: Whether the schema has a part to rewrite, but cannot be rewritten.
    failed: bool = False


def rewrite_within(
    schema: Schema, rewriting: Rewriting, dialect: str, *, seconds: float = SECONDS
) -> Rewritten | NotRewritten:
    """
    Rewrite the schema in the child process.

    `dialect` is the `$schema` URI that applies to a schema without `$schema`. Raise EngineError for an internal error.
    """
    try:
        values = _call_child(rewriting, schema, dialect, seconds)
    except BoundExceeded as exceeded:
        return NotRewritten(message=f"the schema cannot be rewritten {exceeded}", failed=True)
    except (CallBroke, ChildNotStarted) as error:
        raise EngineError(f"internal error in the rewriting of a schema: {error}") from None
    if "message" in values:
        return from_json(NotRewritten, values)
    rewritten = from_json(Rewritten, values)
    if is_refuted(schema, rewritten.schema, dialect):
        return NotRewritten(message=_REFUTED, failed=True)
    return rewritten


def is_refuted(original: Schema, rewritten: Schema, dialect: str, *, seconds: float = _PROOF_SECONDS) -> bool:
    """
    Return whether the algebra of schemas denies that both schemas accept the same instances.

    If it cannot decide, or exceeds a limit, the rules of the rewriting alone ensure that they do.
    """
    function = "pytest_jsbench.adaptation.equivalence:accept_the_same"
    try:
        return guarded_calls().call(function, original, rewritten, dialect, seconds=seconds) is False
    except (BoundExceeded, CallBroke):
        return False
    except ChildNotStarted as error:
        raise EngineError(f"internal error in the rewriting of a schema: {error}") from None


def _call_child(rewriting: Rewriting, schema: Schema, dialect: str, seconds: float) -> Any:
    calls = guarded_calls()
    match rewriting.kind:
        case "order":
            function = "pytest_jsbench.adaptation.reordering:reorder_to_json"
            return calls.call(function, schema, rewriting.seed, seconds=seconds)
        case "inline":
            function = "pytest_jsbench.adaptation.inlining:inline_to_json"
            return calls.call(function, schema, dialect, seconds=seconds)
        case _:
            assert_never(rewriting.kind)
