from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.registry import BUILTIN_QUICK, QUICK, TASKS, load_builtin, open_builtin
from pytest_jsbench.schemas.keywords import FORMATS, KEYWORDS
from pytest_jsbench.settings.options import BY_NAME
from pytest_jsbench.verdicts import Judge

KEYS = open_builtin(Selection()).keys()


def strings_and_keys(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from strings_and_keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings_and_keys(inner)


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_builtin_case_has_descriptions_and_valid_instances_pass(key: CaseKey, judge: Judge) -> None:
    case = load_builtin(key)

    assert case["schema"]["title"]
    assert len(case["schema"]["description"]) > 20
    assert judge.inspect(case["schema"]) is None
    assert len(case["valid"]) >= 2
    for instance in case["valid"]:
        verdict = judge.judge(case["schema"], json.dumps(instance))
        assert verdict.passed, f"{instance}: {verdict}"
        assert not verdict.disputed


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_an_invalid_instance_gets_the_failure_type_and_keyword_it_must_get(key: CaseKey, judge: Judge) -> None:
    case = load_builtin(key)

    assert len(case["invalid"]) >= 3
    for wrong in case["invalid"]:
        text = wrong["text"] if "text" in wrong else json.dumps(wrong["instance"])
        verdict = judge.judge(case["schema"], text)
        paths = (*verdict.extra_fields, *(violation.instance_path for violation in verdict.violations))
        assert (verdict.failure_type, verdict.keyword) == (wrong["failure_type"], wrong["keyword"]), wrong
        assert wrong["path"] is None or wrong["path"] in paths, wrong
        assert not verdict.disputed, wrong


def test_there_are_at_least_eighty_in_the_four_tasks_of_the_seeds() -> None:
    sizes = {task: len(list(keys)) for task, keys in itertools.groupby(KEYS, key=lambda key: key.task)}

    assert tuple(sizes) == TASKS
    assert all(size >= 18 for size in sizes.values()), sizes
    assert len(KEYS) == len(set(KEYS)) >= 80
    assert len({key.id for key in KEYS}) == len(KEYS)


def test_quick_selection_has_cases_of_every_task_in_the_same_order() -> None:
    quick = open_builtin(Selection(source=BUILTIN_QUICK)).keys()

    assert quick == tuple(key for key in KEYS if key.id in QUICK[key.task])
    assert tuple(QUICK) == TASKS
    assert all(len(ids) >= 2 for ids in QUICK.values())
    assert len(quick) == sum(map(len, QUICK.values()))  # each of them exists
    counts = f"builtin (default, {len(KEYS)} schemas), builtin-quick ({len(quick)} of these)"
    assert counts in BY_NAME["dataset"].help


def test_between_them_they_use_every_keyword_and_format() -> None:
    pairs = [pair for key in KEYS for pair in strings_and_keys(load_builtin(key)["schema"])]

    names = {"$defs", "definitions", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}
    assert {*KEYWORDS, *names, "contentEncoding", "contentMediaType"} <= {name for name, _ in pairs}
    assert set(FORMATS) <= {value for name, value in pairs if name == "format" and isinstance(value, str)}


def test_builtin_cases_cover_and_declare_every_dialect() -> None:
    dialects = {load_builtin(key)["schema"]["$schema"].rstrip("#") for key in KEYS}

    assert {dialect.split("org/")[1] for dialect in dialects} == {
        "draft-04/schema",
        "draft-06/schema",
        "draft-07/schema",
        "draft/2019-09/schema",
        "draft/2020-12/schema",
    }
