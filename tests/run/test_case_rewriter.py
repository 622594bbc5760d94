from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_jsbench.adaptation.rewriting import NotRewritten, Rewriting
from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.tool_offers import OfferedTool, ToolOffer
from pytest_jsbench.prompts import PROMPTS
from pytest_jsbench.run.case_rewriter import CaseRewriter, RewrittenCase
from pytest_jsbench.schemas.dialects import DRAFT_2020_12

REFERRING = {"properties": {"a": {"$ref": "#/$defs/s"}}, "$defs": {"s": {"type": "string"}}}
INLINED = {"properties": {"a": {"type": "string"}}}
DYNAMIC = {"items": {"$dynamicRef": "#s"}, "$defs": {"s": {"$dynamicAnchor": "s"}}}


def rewriter(text: str = "inline") -> CaseRewriter:
    made = CaseRewriter.of(Rewriting.parse(text), DRAFT_2020_12.uri)
    assert made is not None
    return made


def case(schema: Any, *tools: Any) -> Case:
    offered = tuple(OfferedTool(name=f"t{at}", parameters=tool) for at, tool in enumerate(tools))
    return Case(
        key=CaseKey(task="t", id="c"),
        schema=schema,
        messages=(Message(role="user", content="Go"),) if tools else (),
        offer=ToolOffer(tools=offered) if tools else None,
    )


def test_case_without_tools_gets_the_rewritten_schema() -> None:
    original = case(REFERRING)

    rewritten = rewriter().rewrite(original)

    assert isinstance(rewritten, RewrittenCase)
    assert (rewritten.case.schema, rewritten.case.key, original.schema) == (INLINED, original.key, REFERRING)
    assert [(change.kind, change.path) for change in rewritten.changes] == [("inlined", "")]


def test_each_tool_is_rewritten_that_can_be() -> None:
    rewritten = rewriter().rewrite(case(True, REFERRING, {"type": "object"}))

    assert isinstance(rewritten, RewrittenCase)
    assert rewritten.case.offer is not None
    assert [tool.parameters for tool in rewritten.case.offer.tools] == [INLINED, {"type": "object"}]
    assert [change.path for change in rewritten.changes] == ["/tools/t0"]


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([{"type": "object"}], "the schema has no $ref to inline"),
        ([REFERRING, DYNAMIC], "tool t1: the schema has a dynamic reference, whose target depends on the path of "),
    ],
)
def test_case_is_not_rewritten_if_no_tool_is_or_one_fails(tools: list[object], message: str) -> None:
    rewritten = rewriter().rewrite(case(True, *tools))

    assert isinstance(rewritten, NotRewritten)
    assert rewritten.message.startswith(message)


def test_template_renders_the_rewritten_schema_or_the_original() -> None:
    render = rewriter().template(PROMPTS["schema"].render)

    assert json.dumps(INLINED) in render(case(REFERRING)).messages[-1].content
    assert '"type": "integer"' in render(case({"type": "integer"})).messages[-1].content


def test_there_is_no_rewriter_without_a_rewriting() -> None:
    assert CaseRewriter.of(None, DRAFT_2020_12.uri) is None
