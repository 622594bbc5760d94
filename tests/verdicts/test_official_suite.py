from __future__ import annotations

import json

import pytest

from pytest_jsbench.verdicts.dialects import DIALECTS, Dialect
from pytest_jsbench.verdicts.inprocess import InProcessJudge
from pytest_jsbench.verdicts.model import JudgePolicy
from tests.verdicts.data import needs_suite, suite

pytestmark = needs_suite

FOLDERS = dict(zip(DIALECTS, ("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"), strict=True))


@pytest.mark.parametrize("dialect", DIALECTS, ids=FOLDERS.__getitem__)
def test_every_verdict_is_that_of_the_official_suite(dialect: Dialect) -> None:
    judges = {
        formats: InProcessJudge(JudgePolicy(default_dialect=dialect.uri, formats=formats, validator="jsonschema-rs"))
        for formats in ("assert", "ignore")
    }
    wrong = []
    for path, case in suite(FOLDERS[dialect]):
        # elsewhere the suite wants formats to be annotations only
        judge = judges["assert" if "format" in path.relative_to(path.parents[2]).parts else "ignore"]
        for test in case["tests"]:
            *_, verdict = judge.judge(json.dumps(case["schema"]), json.dumps(test["data"]), truncated=False)
            if verdict.valid is not test["valid"]:
                wrong.append((path.name, case["description"], test["description"], verdict.message))
    assert wrong == []
