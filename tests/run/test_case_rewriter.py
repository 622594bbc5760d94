from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pytest_jsbench.adaptation.rewriting import NotRewritten, Rewriting, rewrite_within
from pytest_jsbench.core.cases import Case, CaseKey
from pytest_jsbench.core.messages import Message
from pytest_jsbench.core.tool_offers import OfferedTool, ToolOffer
from pytest_jsbench.prompts import PROMPTS
from pytest_jsbench.run import case_rewriter
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


def test_different_schemas_are_rewritten_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Semaphore(0)
    together = threading.Event()

    def rewrite(schema: Any, *_: object) -> NotRewritten:
        if begun.acquire(blocking=False):
            together.set()
        begun.release()
        return NotRewritten(message="together" if together.wait(timeout=60) else "alone")

    monkeypatch.setattr(case_rewriter, "rewrite_within", rewrite)
    cases = [case({"minimum": number}) for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        ends = list(threads.map(rewriter().rewrite, cases))

    assert all(isinstance(end, NotRewritten) and end.message == "together" for end in ends)


def test_schema_is_rewritten_once_for_all_repeats_and_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas: list[object] = []

    def count(schema: Any, *rest: Any) -> Any:
        schemas.append(schema)
        return rewrite_within(schema, *rest)

    monkeypatch.setattr(case_rewriter, "rewrite_within", count)
    other_order = {"$defs": REFERRING["$defs"], "properties": REFERRING["properties"]}
    one = rewriter()
    with ThreadPoolExecutor(4) as threads:
        repeats = list(threads.map(one.rewrite, [case(REFERRING)] * 4))
    of_tools = one.rewrite(case(REFERRING, REFERRING, {"type": "object"}))
    one.rewrite(case(True, {"type": "object"}))

    assert repeats[1:] == repeats[:-1]
    assert isinstance(repeats[0], RewrittenCase)
    assert isinstance(repeats[1], RewrittenCase)
    assert repeats[0].case.schema is not repeats[1].case.schema  # a template may change its own
    assert isinstance(of_tools, RewrittenCase)
    assert [change.path for change in of_tools.changes] == ["", "/tools/t0"]
    assert schemas == [REFERRING, {"type": "object"}, True]
    one.rewrite(case(other_order))
    assert [json.dumps(each) for each in schemas[3:]] == [json.dumps(other_order)]


def test_schema_that_is_nested_too_deeply_is_not_rewritten() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"not": deep}

    found = rewriter().rewrite(case(deep))

    assert isinstance(found, NotRewritten)
    assert found.message.endswith("as it is nested too deeply")


def test_there_is_no_rewriter_without_a_rewriting() -> None:
    assert CaseRewriter.of(None, DRAFT_2020_12.uri) is None
