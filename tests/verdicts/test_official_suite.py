from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_jsbench.schemas.dialects import DIALECTS, Dialect
from pytest_jsbench.verdicts.in_process import InProcessJudge
from pytest_jsbench.verdicts.verdicts import FailureType, JudgePolicy, Verdict
from tests.verdicts.bundles import bundle
from tests.verdicts.data import needs_suite, suite

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_suite

FOLDERS = dict(zip(DIALECTS, ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"), strict=True))
#: so that a suite that is there in part only is no suite that is passed
TESTS = {"draft4": 937, "draft6": 1270, "draft7": 1721, "draft2019-09": 2174, "draft2020-12": 2225}

VALIDATES_NOTHING = "its `$schema` is a metaschema of its own without the validation vocabulary"
OTHER_VOCABULARY = "its `$schema` is a metaschema of its own with a vocabulary that nobody knows, and that is optional"
FORMATS_BY_METASCHEMA = "its `$schema` is a metaschema of its own that says whether formats are asserted"
#: a `$schema` that is no published draft is an unknown dialect, whatever documents are bundled
UNKNOWN_DIALECTS = {
    (
        "draft2019-09",
        "vocabulary.json",
        "schema that uses custom metaschema with with no validation vocabulary",
    ): VALIDATES_NOTHING,
    ("draft2019-09", "vocabulary.json", "ignore unrecognized optional vocabulary"): OTHER_VOCABULARY,
    (
        "draft2020-12",
        "vocabulary.json",
        "schema that uses custom metaschema with with no validation vocabulary",
    ): VALIDATES_NOTHING,
    ("draft2020-12", "vocabulary.json", "ignore unrecognized optional vocabulary"): OTHER_VOCABULARY,
    (
        "draft2020-12",
        "optional/format-assertion.json",
        "schema that uses custom metaschema with format-assertion: false",
    ): FORMATS_BY_METASCHEMA,
    (
        "draft2020-12",
        "optional/format-assertion.json",
        "schema that uses custom metaschema with format-assertion: true",
    ): FORMATS_BY_METASCHEMA,
}


def judged(dialect: Dialect) -> Iterator[tuple[tuple[str, str, str], dict[str, Any], Verdict]]:
    """Each test of the suite for that dialect: its case, itself, its verdict."""
    judges = {
        formats: InProcessJudge(JudgePolicy(default_dialect=dialect.uri, formats=formats, validator="jsonschema-rs"))
        for formats in ("assert", "ignore")
    }
    for file, case in suite(FOLDERS[dialect]):
        # elsewhere the suite wants formats to be annotations only
        judge = judges["assert" if file.startswith("optional/format/") else "ignore"]
        schema = json.dumps(bundle(case["schema"], dialect))
        for test in case["tests"]:
            *_, verdict = judge.judge(schema, json.dumps(test["data"]), truncated=False)
            yield (FOLDERS[dialect], file, case["description"]), test, verdict


@pytest.mark.parametrize("dialect", DIALECTS, ids=FOLDERS.__getitem__)
def test_every_verdict_is_that_of_the_official_suite_unless_the_dialect_is_unknown(dialect: Dialect) -> None:
    wrong, unknown, tests = [], set(), 0
    for case, test, verdict in judged(dialect):
        tests += 1
        if verdict.failure_type is FailureType.INVALID_SCHEMA and verdict.reason == "unknown_dialect":
            unknown.add(case)
        elif verdict.valid is not test["valid"]:
            wrong.append((*case, test["description"], verdict.message))
    assert wrong == []
    assert unknown == {case for case in UNKNOWN_DIALECTS if case[0] == FOLDERS[dialect]}
    assert tests >= TESTS[FOLDERS[dialect]]
