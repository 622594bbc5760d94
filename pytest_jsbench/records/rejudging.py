"""Judge the engine's result for an attempt, in the same way during the run and at any later time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pytest_jsbench.core.errors import RecordError
from pytest_jsbench.core.generations import Completion, Declined
from pytest_jsbench.core.text import printable
from pytest_jsbench.schemas.dialects import NAMES
from pytest_jsbench.schemas.references import SchemaPlaces, follow, json_path, pointer_of, tokens_of
from pytest_jsbench.values import match
from pytest_jsbench.verdicts import FailureType, Judge, JudgePolicy, Note, Verdict, decide
from pytest_jsbench.verdicts.judge import constants_of
from pytest_jsbench.verdicts.runaways import find_runaways
from pytest_jsbench.verdicts.tool_calls import find_judging_schema

if TYPE_CHECKING:
    from pytest_jsbench.adaptation import Change
    from pytest_jsbench.core.cases import Expected, Schema
    from pytest_jsbench.core.generations import Generation, Sent
    from pytest_jsbench.core.tool_offers import ToolOffer
    from pytest_jsbench.records.records import Record
    from pytest_jsbench.records.repairs import Repairs
    from pytest_jsbench.schemas.keywords import Tokens
    from pytest_jsbench.schemas.references import Path
    from pytest_jsbench.values import Comparer
    from pytest_jsbench.verdicts import Violation


def recorded_policy(data: Mapping[str, Any], changes: Mapping[str, Any]) -> JudgePolicy:
    """Return the judge policy that a run's metadata contain, with these changes."""
    fields = {field.name for field in dataclasses.fields(JudgePolicy)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name in fields
    }
    policy = JudgePolicy(**{**values, **changes})
    if policy.default_dialect not in NAMES.values():
        dialect = printable(policy.default_dialect)
        raise RecordError(f"the run was judged with the dialect {dialect}; expected one of {', '.join(NAMES.values())}")
    return policy


def verdict_on(
    generation: Generation,
    schema: Schema,
    changes: tuple[Change, ...],
    judge: Judge,
    *,
    offer: ToolOffer | None = None,
) -> Verdict:
    """
    Return the verdict on the engine's result, with notes about the answer; `offer` has the tools that were offered.

    Notes are added if the answer quoted a secret, differs from a listed value only in case, violates a keyword that was
    not sent to the engine, was not constrained by a schema, was not received as text, or is in large part white space
    or a repetition.
    """
    verdict = decide(generation, schema, judge, offer=offer)
    schema_of_text = find_judging_schema(generation, verdict.tool, schema, offer)
    completion = generation if isinstance(generation, Completion) else None
    sent = None if completion is None else completion.sent
    runaways = () if completion is None else find_runaways(completion.text, is_document=verdict.valid is not None)
    dropped = {change.keyword for change in changes if change.kind == "widened"}
    seen = {
        Note.SECRET_REPLACED: completion is not None and completion.secret_replaced,
        Note.NOT_ENFORCED: completion is not None and completion.sent is not None and completion.sent.left_out,
        Note.NOT_TEXT: completion is not None and completion.not_text,
        Note.CAPITALS: any(_only_capitals(each, schema_of_text, verdict.instance) for each in verdict.violations),
        Note.ADAPTATION_LOSS: any(violation.keyword in dropped for violation in verdict.violations),
    }
    kept_order = verdict.order_kept
    if verdict.valid:
        tool = None if offer is None or verdict.tool not in offer.names else verdict.tool
        schema_of_order = _schema_of_order(schema_of_text, tool, changes, sent)
        kept_order = None if schema_of_order is None else order_kept(schema_of_order, verdict.instance)
    trivial = verdict.trivial
    if trivial is None and offer is None:  # the judge computes this only for answers that were received as text
        trivial = constants_of(generation, verdict.tool, schema, judge)
    return replace(
        verdict,
        notes=(
            *verdict.notes,
            *(note for note, is_seen in seen.items() if is_seen),
            *(runaway.note for runaway in runaways),
        ),
        runaway_share=max((runaway.share for runaway in runaways), default=None),
        order_kept=kept_order,
        trivial=trivial,
    )


def _schema_of_order(
    schema_of_text: Schema, tool: str | None, changes: tuple[Change, ...], sent: Sent | None
) -> Schema | None:
    """
    Return the schema in whose order the properties were sent, since the model can follow only this order.

    None if the schema of an offered tool was reordered: records do not contain the schema that was sent for it.
    """
    place = "" if tool is None else pointer_of(("tools", tool))
    if not any(change.kind == "reordered" and change.path == place for change in changes):
        return schema_of_text
    if tool is not None:
        return None
    return schema_of_text if sent is None or sent.schema is None else sent.schema


def _only_capitals(violation: Violation, schema: Schema, instance: object) -> bool:
    """Return whether the violating string equals one of the values in `enum` or `const` except for case."""
    if violation.keyword not in ("enum", "const"):
        return False
    keyword = follow(schema, tokens_of(violation.schema_path))
    values = keyword if isinstance(keyword, list) else [keyword]
    listed = {value.casefold() for value in values if isinstance(value, str)}
    return any(
        json_path(path) == violation.instance_path for path, text in _texts(instance) if text.casefold() in listed
    )


def _texts(instance: object) -> Iterator[tuple[Path, str]]:
    pending: list[tuple[Path, object]] = [((), instance)]
    while pending:
        path, value = pending.pop()
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, dict):
            pending += [((*path, name), member) for name, member in value.items()]
        elif isinstance(value, list):
            pending += [((*path, number), member) for number, member in enumerate(value)]


def compare_values(
    record: Record, expected: Expected | None, comparers: Mapping[str, Comparer] | None = None
) -> Record:
    """
    Return the judged record with a comparison of its answer's values with the expected values.

    An answer that does not conform has no correct values. Without an answer or expected values there is no comparison.
    """
    unjudged = record.verdict.failure_type is FailureType.UNJUDGED
    if expected is None or unjudged or not isinstance(record.generation, Completion | Declined):
        return record if record.expected is expected is None else replace(record, expected=expected, match=None)
    instance: dict[str, Any] = {"instance": record.verdict.instance} if record.verdict.valid else {}
    values = match(expected, **instance, schema=record.schema, comparers=comparers)
    return replace(record, expected=expected, match=values)


def judge_again(
    record: Record, judge: Judge, comparers: Mapping[str, Comparer] | None = None, *, compare: bool = False
) -> Record:
    """
    Return the record with the verdict of this judge; codes are removed if the attempt passes.

    A record without an answer or a schema is returned unchanged. Values are compared again with these comparers if
    `compare` is set, or if only one of the two verdicts considers the answer valid.
    """
    if record.generation is None or record.schema is None:
        return record
    verdict = verdict_on(record.generation, record.schema, record.changes, judge, offer=record.offered)
    judged = replace(record.with_schema(record.schema), verdict=verdict, codes=() if verdict.passed else record.codes)
    if record.repairs is not None:
        judged = replace(judged, repairs=None if verdict.passed else _judge_tries_again(judged, record.repairs, judge))
    compared = verdict.valid == record.verdict.valid and not compare
    return judged if compared else compare_values(judged, record.expected, comparers)


def _judge_tries_again(record: Record, repairs: Repairs, judge: Judge) -> Repairs:
    """Return the second tries of a record's answer with the verdicts of this judge."""
    schema = record.schema
    if schema is None:
        return repairs
    tries = [
        replace(each, verdict=verdict_on(each.generation, schema, record.changes, judge)) for each in repairs.tries
    ]
    return replace(repairs, tries=tuple(tries))


#: Maximum number of pairs of a subschema and a value that are examined; for larger answers the result is None.
_MOST_PLACES = 5_000


def order_kept(schema: Any, instance: object) -> bool | None:
    """
    Return whether the properties of each object in a conforming answer are in the order of the schema.

    None if no object has two properties that the schema names. Alternatives such as `anyOf` are ignored, since an
    object may conform to several alternatives with different orders.
    """
    schemas = SchemaPlaces(schema, certain=True)
    kept = None
    examined = 0
    pending: list[tuple[Any, list[Tokens]]] = [(instance, [()])]
    while pending:
        value, places = pending.pop()
        places = schemas.find_applying(places)
        examined += len(places)
        if examined > _MOST_PLACES:
            return None
        for place in places if isinstance(value, dict) else ():
            properties = follow(schema, place).get("properties")
            named = [name for name in value if name in properties] if isinstance(properties, Mapping) else []
            if len(named) > 1:
                kept = kept is not False and named == [name for name in properties if name in value]
        members: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, dict):
            members = value.items()
        elif isinstance(value, list):
            members = enumerate(value)
        for step, member in members:
            if isinstance(member, dict | list) and (below := schemas.below(places, step)):
                pending.append((member, below))
    return kept
