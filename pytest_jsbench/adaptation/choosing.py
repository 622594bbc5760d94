"""Which adaptation a word means: `verbatim`, `narrow:openai`, `relax:gemini`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.model import Adapted, Inexpressible, Mode
    from pytest_jsbench.cases import Schema


def adapter(said: str) -> Callable[[Schema], Adapted | Inexpressible] | None:
    """The adaptation of one schema; None for `verbatim`. ValueError for any other word."""
    mode, _, subset = said.partition(":")
    if said == "verbatim":
        return None
    from pytest_jsbench.adaptation.guarded import adapt_within
    from pytest_jsbench.adaptation.subsets import SUBSETS

    if mode not in {"narrow", "relax"} or subset not in SUBSETS:
        message = f"expected verbatim, or narrow or relax and one of {', '.join(SUBSETS)}, found {said!r}"
        raise ValueError(message)
    return partial(adapt_within, subset=subset, mode=cast("Mode", mode))
