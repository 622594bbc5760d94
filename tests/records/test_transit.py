from __future__ import annotations

import pytest

from pytest_jsbench.core.json_values import from_json, to_json
from pytest_jsbench.records.redaction import REDACTED, Redaction
from pytest_jsbench.records.transit import SchemaInTransit, Transit
from pytest_jsbench.schemas.keyword_differences import SchemaDifference
from pytest_jsbench.schemas.schema_comparison import Relation
from tests.support.examples import VIOLATED, record, replace

LOST = SchemaDifference(kind="lost", keyword="pattern", place="/properties/secret/pattern")
ADDED = SchemaDifference(kind="added", keyword="additionalProperties", place="/additionalProperties")
OWN = SchemaDifference(kind="changed", keyword="x-own", place="/x-own")
WIDER = SchemaInTransit(
    place="/text/format/schema",
    relation=Relation.WIDER,
    differences=(ADDED, LOST, OWN),
    accepted='{"secret": 1}',
)
ABSENT = SchemaInTransit(tool="save", relation=Relation.ABSENT)


@pytest.mark.parametrize(
    ("relations", "worst"),
    [
        (("equal", "narrower"), "narrower"),
        (("narrower", "unknown", "equal"), "unknown"),
        (("unknown", "absent"), "absent"),
        (("wider", "absent"), "wider"),
        (("wider", "different"), "different"),
    ],
)
def test_relation_of_a_request_is_the_worst(relations: tuple[str, ...], worst: str) -> None:
    transit = Transit(schemas=tuple(SchemaInTransit(relation=Relation(each)) for each in relations))

    assert transit.relation == worst
    assert transit.is_looser == (worst in ("absent", "wider", "different"))


def test_summary_names_what_was_lost_first() -> None:
    assert WIDER.summary == (
        "the schema that reached the endpoint accepts more values than the declared schema, such as "
        '{"secret": 1} (lost /properties/secret/pattern, changed /x-own, added /additionalProperties)'
    )
    assert ABSENT.summary == "the schema of tool save did not reach the endpoint"
    hostile = replace(WIDER, tool="\x1b[31m", differences=(LOST,) * 5)
    assert "\x1b" not in hostile.summary
    assert hostile.summary.endswith(", and 2 more)")


def test_failed_answer_explains_a_looser_schema() -> None:
    failed = replace(record("x", verdict=VIOLATED), transit=Transit(schemas=(WIDER,)))
    equal = replace(failed, transit=Transit(schemas=(replace(WIDER, relation=Relation.NARROWER),)))

    assert f"  schema: {WIDER.summary}" in failed.explanation.splitlines()
    assert "  schema: " not in equal.explanation


def test_record_is_read_back_and_omits_an_absent_comparison() -> None:
    transit = Transit(schemas=(WIDER, ABSENT))

    assert from_json(Transit, to_json(transit)) == transit
    assert "transit" not in record("x").to_dict()
    assert to_json(transit)["schemas"][1] == {"tool": "save", "relation": "absent"}


def test_redacted_record_has_no_names_and_values() -> None:
    redacted = Redaction.new().record(replace(record("x"), transit=Transit(schemas=(WIDER, ABSENT))))

    assert redacted.transit is not None
    assert redacted.transit.relation == "wider"
    assert [each.keyword for each in redacted.transit.schemas[0].differences] == [
        "additionalProperties",
        "pattern",
        REDACTED,
    ]
    assert "secret" not in str(redacted.to_dict())
    assert "save" not in str(redacted.transit)
