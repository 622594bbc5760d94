"""Rewrite the schemas of cases before their prompts are built; the judge still uses the original schemas."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from msgspec import structs

from pytest_jsbench.adaptation.adapter import Change
from pytest_jsbench.adaptation.rewriting import NotRewritten, Rewriting, Rewritten, rewrite_within
from pytest_jsbench.core.cases import Case, Prompt, PromptTemplate, Schema, prompt_of
from pytest_jsbench.core.json_values import as_dict, copy_of
from pytest_jsbench.core.text import printable
from pytest_jsbench.core.tool_offers import ToolOffer
from pytest_jsbench.schemas.references import pointer_of

#: Number of schemas whose results are kept; a case may offer many tools.
_KEPT = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenCase:
    """A case with rewritten schemas, for the prompt and the request."""

    case: Case
    changes: tuple[Change, ...]


class CaseRewriter:
    """
    Rewrites the schema of a case, or the schemas of its tools, in one way.

    The threads of the calls in flight share one object. It keeps the latest results, because the repeats of a case have
    the same schema, and the cases of a document the same tools.
    """

    def __init__(self, rewriting: Rewriting, default_dialect: str) -> None:
        self._rewriting = rewriting
        #: `$schema` URI that applies to a schema without `$schema`.
        self._default_dialect = default_dialect
        #: Rewrites the JSON text of a schema, and keeps the latest results.
        self._rewrite_text = lru_cache(maxsize=_KEPT)(lambda text: self._rewrite_within(json.loads(text)))
        #: One of them is held while a schema is rewritten, so that attempts at the same case do not rewrite it at the
        #: same time; schemas of different cases rarely have the same one.
        self._locks = [threading.Lock() for _ in range(_KEPT)]

    @classmethod
    def of(cls, rewriting: Rewriting | None, default_dialect: str) -> Self | None:
        """Return the rewriter for this rewriting; None if there is none."""
        return None if rewriting is None else cls(rewriting, default_dialect)

    def rewrite(self, case: Case) -> RewrittenCase | NotRewritten:
        """
        Return the case with its schema and those of its tools rewritten.

        Return the reason if none of them has a part to rewrite, or if rewriting one of them fails.
        """
        changes: list[Change] = []
        reasons: list[NotRewritten] = []
        schema = self._rewrite(case.schema, (), changes, reasons)
        offer = None if case.offer is None else self._rewrite_offer(case.offer, changes, reasons)
        failure = next((reason for reason in reasons if reason.failed), None)
        if failure is not None:
            return failure
        if not changes:
            return reasons[0]
        return RewrittenCase(case=replace(case, schema=schema, offer=offer), changes=tuple(changes))

    def template(self, render: PromptTemplate) -> PromptTemplate:
        """Return a template that renders a case with its schemas rewritten, or unchanged if they cannot be."""

        def render_rewritten(case: Case) -> Prompt:
            rewritten = self.rewrite(case)
            return prompt_of(case if isinstance(rewritten, NotRewritten) else rewritten.case, render)

        return render_rewritten

    def _rewrite(
        self, schema: Schema, place: tuple[str, ...], changes: list[Change], reasons: list[NotRewritten]
    ) -> Schema:
        result = self._rewrite_schema(schema)
        if isinstance(result, NotRewritten):
            reasons.append(result)
            return schema
        changes.append(replace(result.change, path=f"{pointer_of(place)}{result.change.path}"))
        rewritten: Schema = copy_of(result.schema)
        return rewritten

    def _rewrite_schema(self, schema: Schema) -> Rewritten | NotRewritten:
        try:
            # not its digest, which is the same for another order of properties
            text = json.dumps(schema, default=as_dict)
            with self._locks[hash(text) % len(self._locks)]:
                return self._rewrite_text(text)
        except RecursionError:  # the child process reports this as a limit
            return self._rewrite_within(schema)

    def _rewrite_within(self, schema: Schema) -> Rewritten | NotRewritten:
        return rewrite_within(schema, self._rewriting, self._default_dialect)

    def _rewrite_offer(self, offer: ToolOffer, changes: list[Change], reasons: list[NotRewritten]) -> ToolOffer:
        tools = []
        for tool in offer.tools:
            place = ("tools", tool.name)
            reasons_of_tool: list[NotRewritten] = []
            parameters = self._rewrite(tool.parameters, place, changes, reasons_of_tool)
            name = printable(tool.name, 60)
            reasons += (replace(reason, message=f"tool {name}: {reason.message}") for reason in reasons_of_tool)
            tools.append(structs.replace(tool, parameters=parameters))
        return structs.replace(offer, tools=tuple(tools))
