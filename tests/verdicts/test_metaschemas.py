"""Test schemas whose own metaschema is in the same document."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.verdicts import Judge, JudgePolicy, SecondOpinion

BASE = "https://json-schema.org/draft/2020-12"
META = "https://example.org/meta"


def metaschema(*vocabularies: str, uri: str = META, base: str = f"{BASE}/schema", **more: Any) -> dict[str, Any]:
    named = {vocabulary if ":" in vocabulary else f"{BASE}/vocab/{vocabulary}": True for vocabulary in vocabularies}
    return {"$schema": base, "$id": uri, "$dynamicAnchor": "meta", "$vocabulary": named, **more}


def schema(meta: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    return {"$schema": META, "$defs": {"meta": meta}, **keywords}


@pytest.mark.parametrize(
    ("vocabularies", "keywords", "text", "valid"),
    [
        (["core", "applicator"], {"minimum": 5}, "1", True),
        (["core", "validation"], {"minimum": 5}, "1", False),
        (["core", "validation"], {"properties": {"a": False}}, '{"a": 1}', True),
        (["core", "applicator"], {"properties": {"a": {"$ref": "#/$defs/no"}}}, '{"a": 1}', False),
        (["core", "applicator"], {"unevaluatedProperties": False}, '{"a": 1}', True),
        (["core", "applicator", "unevaluated"], {"unevaluatedProperties": False}, '{"a": 1}', False),
        (["core"], {"format": "ipv4"}, '"x"', True),
        (["core", "format-annotation"], {"format": "ipv4"}, '"x"', False),
        (["core", "format-assertion"], {"format": "ipv4"}, '"x"', False),
    ],
)
def test_only_the_keywords_of_its_vocabularies_decide(
    judge: Judge, vocabularies: list[str], keywords: dict[str, Any], text: str, valid: bool
) -> None:
    whole = schema(metaschema(*vocabularies), **keywords)
    whole["$defs"]["no"] = False
    verdict = judge.judge(whole, text)
    assert (verdict.valid, verdict.second_opinion) == (valid, SecondOpinion.AGREES)
    assert verdict.dialect == META


def test_formats_are_asserted_if_the_metaschema_requires_it() -> None:
    with Judge(JudgePolicy(formats="ignore")) as judge:
        asserted = judge.judge(schema(metaschema("core", "format-assertion"), format="ipv4"), '"x"')
        annotated = judge.judge(schema(metaschema("core", "format-annotation"), format="ipv4"), '"x"')
    assert (asserted.valid, annotated.valid) == (False, True)
    assert asserted.second_opinion is annotated.second_opinion is SecondOpinion.AGREES


def test_a_key_is_named_only_by_keywords_of_the_dialect(judge: Judge) -> None:
    named = judge.judge(schema(metaschema("core", "applicator"), properties={"a": True}), '{"b": 1}')
    assert named.extra_fields == ("$.b",)
    assert judge.judge(schema(metaschema("core", "validation"), properties={"a": True}), '{"b": 1}').passed


@pytest.mark.parametrize(
    ("whole", "reason"),
    [
        ({"$schema": META, "type": "string"}, "unknown_dialect"),
        ({"$schema": "meta", "$defs": {"meta": metaschema("core", uri="meta")}}, "unknown_dialect"),
        (schema(metaschema("core", "https://example.org/vocab")), "unknown_vocabulary"),
        (schema(metaschema("core", properties={"title": {"type": "string"}}), title=5), "metaschema"),
        (schema({**metaschema(base=META), "$vocabulary": {}}), "unknown_dialect"),
        (schema({**metaschema(), "$vocabulary": 3}), "metaschema"),
    ],
)
def test_missing_or_violated_metaschema_makes_the_schema_invalid(
    judge: Judge, whole: dict[str, Any], reason: str
) -> None:
    problem = judge.inspect(whole)
    assert problem is not None
    assert problem.reason == reason


def test_an_unknown_vocabulary_that_is_optional_is_left_out(judge: Judge) -> None:
    meta = metaschema("core", "validation")
    meta["$vocabulary"]["https://example.org/vocab"] = False
    assert judge.judge(schema(meta, minimum=5), "1").keyword == "minimum"


def test_a_metaschema_may_build_on_another_of_ones_own(judge: Judge) -> None:
    above = "https://example.org/above"
    whole = schema(metaschema("core", base=above), minimum=5)
    whole["$defs"]["above"] = metaschema("core", "validation", uri=above)
    assert judge.judge(whole, "1").passed
    del whole["$defs"]["meta"]["$vocabulary"]
    assert judge.judge(whole, "1").keyword == "minimum"


def test_a_metaschema_without_vocabularies_has_the_keywords_of_its_draft(judge: Judge) -> None:
    meta = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": META}
    whole = {"$schema": META, "definitions": {"meta": meta}, "items": [{"type": "string"}], "additionalItems": False}
    assert judge.judge(whole, '["a"]').passed
    assert judge.judge(whole, "[1]").keyword == "type"
    assert judge.judge(whole, '["a", 1]').keyword == "additionalItems"
