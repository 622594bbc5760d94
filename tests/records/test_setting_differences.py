from __future__ import annotations

from typing import Any

import pytest

from pytest_jsbench.records.metadata import ChosenCases, RunMetadata, Sampling, Strictness
from pytest_jsbench.records.setting_differences import (
    NOT_SET,
    UNKNOWN,
    differences,
    find_distinguishing_settings,
    settings_of,
)
from pytest_jsbench.settings.option import Bearing
from pytest_jsbench.settings.options import OPTIONS


def test_equal_numbers_are_one_value_and_booleans_are_not_numbers() -> None:
    runs = [
        settings_of({"params": {"temperature": value}, "details": {"fast": fast}})
        for value, fast in ((0, True), (0.0, 1))
    ]

    assert [one.name for one in differences(runs)] == ["engine.fast"]


def test_a_list_that_was_a_tuple_is_the_same() -> None:
    assert differences([settings_of({"policy": {"ignored_fields": value}}) for value in (["a"], ("a",))]) == ()


def test_setting_known_for_one_run_is_no_difference() -> None:
    one, two, three = settings_of({"shots": 0}), settings_of({}), settings_of({"shots": 3})

    assert differences([one, two]) == ()
    (found,) = differences([one, two, three])
    assert found.values == (0, UNKNOWN, 3)


def test_the_slots_of_an_engine_and_time_limits_bear_on_times_alone() -> None:
    names = {
        name: one.bears_on for name, one in settings_of({"details": {"slots": 4}, "policy": {"timeout": 5}}).items()
    }

    assert names == {"engine.slots": Bearing.TIMES, "judge.timeout": Bearing.TIMES}


@pytest.mark.parametrize(("prompts", "names"), [("aab", ["prompt", "prompt_digest"]), ("abc", ["prompt"])])
def test_prompt_digest_is_named_only_if_prompt_names_are_equal(prompts: str, names: list[str]) -> None:
    runs = [settings_of({"prompt": name, "prompt_digest": f"sha256:{at}"}) for at, name in enumerate(prompts)]

    assert [one.name for one in differences(runs)] == names
    assert find_distinguishing_settings(runs) == names


def test_rules_without_a_number_are_the_first_ones() -> None:
    assert [
        one.values for one in differences([settings_of({"versions": {}}), settings_of({"versions": {"judge": "2"}})])
    ] == [("1", "2")]


def test_cases_selected_or_changed_by_a_program_are_a_difference() -> None:
    ours = settings_of({"dataset": {"source": "builtin", "steps": ["sample 4 seed 1"]}})
    theirs = settings_of({"dataset": {"source": "builtin"}})

    assert [(one.name, one.values) for one in differences([ours, theirs])] == [("steps", (["sample 4 seed 1"], []))]


def test_selection_of_the_same_cases_is_no_difference_but_changes_are() -> None:
    plugin = settings_of({"model": "a", "dataset": {"where": ["size<200"], "limit": 24, "sample": None}})
    program = settings_of({"model": "b", "dataset": {"steps": ["filter size<200", "slice :24"], "where": []}})
    changed = settings_of({"model": "a", "dataset": {"steps": ["filter size<200", "map short()"]}})

    assert [one.name for one in differences([plugin, program])] == ["model", "where", "steps"]
    assert [one.name for one in differences([plugin, program], same_cases=True)] == ["model"]
    assert find_distinguishing_settings([plugin, program], same_cases=True) == ["model"]
    (steps,) = differences([plugin, changed], same_cases=True)
    assert (steps.name, steps.values) == ("steps", ([], ["map short()"]))


def test_sampling_requested_of_recorded_answers_is_not_their_setting() -> None:
    params = {"temperature": None, "max_tokens": 2048, "seed": None, "timeout": 9}
    made = settings_of({"engine": "local", "params": {**params, "temperature": 0.7}})

    for engine in ("replay", "recorded"):
        found = differences([made, settings_of({"engine": engine, "params": params})])
        assert [one.name for one in found] == ["engine"]


def test_rewriting_of_schemas_differs_from_none() -> None:
    original, inlined = (settings_of({"engine": "openai", **more}) for more in ({}, {"rewrite": "inline"}))

    (found,) = differences([original, inlined])

    assert (found.name, found.values) == ("rewrite", (NOT_SET, "inline"))
    assert differences([original, original]) == ()
    assert differences([settings_of({}), inlined]) == ()


@pytest.mark.parametrize(("name", "value"), [("rate", "5/s"), ("plain_share", 0.25), ("repairs", "2")])
def test_setting_that_is_recorded_only_if_it_is_set_differs_from_none(name: str, value: object) -> None:
    without, having = (settings_of({"engine": "openai", **more}) for more in ({}, {name: value}))

    (found,) = differences([having, without])

    assert (found.name, found.values) == (name, (value, NOT_SET))


def test_extra_request_fields_are_settings_for_each_leaf() -> None:
    body = {"chat_template_kwargs": {"enable_thinking": True}, "top_k": 5}
    thinking, not_thinking, plain = (
        settings_of({"engine": "openai", "details": details})
        for details in (
            {"extra_body": body},
            {"extra_body": {**body, "chat_template_kwargs": {"enable_thinking": False}}},
            {},
        )
    )

    name = "engine.extra_body.chat_template_kwargs.enable_thinking"
    assert [(one.name, one.values) for one in differences([thinking, not_thinking])] == [(name, (True, False))]
    found = {one.name: one.values for one in differences([thinking, plain])}
    assert found == {name: (True, NOT_SET), "engine.extra_body.top_k": (5, NOT_SET)}


def test_options_of_another_engine_are_no_further_difference() -> None:
    one, other = settings_of({"engine": "a", "details": {"slots": 1}}), settings_of({"engine": "b", "details": {}})

    assert [found.name for found in differences([one, other])] == ["engine"]


def test_third_party_option_has_printable_name_and_limited_depth() -> None:
    deep: dict[str, object] = {"x": 1}
    for _ in range(50):
        deep = {"\x1b" + "n" * 500: deep}

    (found,) = settings_of({"details": deep}).values()

    assert len(found.name) == 80
    assert "\x1b" not in found.name
    assert len(found.shown) == 40


def test_different_long_values_are_displayed_differently() -> None:
    values = [f"{'a' * 50}{middle}{'z' * 50}" for middle in "121"]

    (found,) = differences([settings_of({"model": value}) for value in values])

    first, second, third = found.shown
    assert first == third != second
    assert {len(one) for one in found.shown} == {100}


def test_runs_are_compared_by_recorded_options_and_by_all_options_of_the_judge() -> None:
    parts = {"params": Sampling, "dataset": ChosenCases, "policy": Strictness}
    members = {f"{part}.{name}" for part, kind in parts.items() for name in kind.__annotations__}
    recorded = [path for option in OPTIONS for path in option.recorded]

    assert set(recorded) <= {*RunMetadata.__dataclass_fields__, *members}
    assert len(set(recorded)) == len(recorded)
    assert {option.name for option in OPTIONS if option.recorded} <= {
        option.name for option in OPTIONS if option.affects
    }
    assert {path for path in recorded if path.startswith("policy.")} == {
        f"policy.{name}" for name in Strictness.__annotations__
    }


def test_option_without_a_field_of_its_own_is_compared_by_its_entry_in_the_options() -> None:
    runs: list[dict[str, Any]] = [
        {"engine": "e", "options": {"retries": 0, "rpm": 60.0}},
        {"options": {}},
        {"engine": "e"},
    ]

    found = differences([settings_of(run) for run in runs])

    assert [(each.name, each.bears_on, each.values) for each in found] == [
        ("retries", Bearing.ANSWERS, (0, 2, UNKNOWN)),
        ("rpm", Bearing.TIMES, (60.0, None, UNKNOWN)),
    ]


def test_settings_are_listed_by_what_they_affect_the_most_telling_first() -> None:
    metadata: dict[str, Any] = {"params": {}, "dataset": {}, "versions": {"judge": "3"}, "streaming": True}
    for option in OPTIONS:
        for path in option.places:
            group, _, name = path.rpartition(".")
            (metadata.setdefault(group, {}) if group else metadata)[name] = "x"
    metadata |= {"provider": "p", "prompt_digest": "d", "details": {"slots": 4}, "comparers": {"total": "exact"}}

    assert list(settings_of(metadata)) == [
        *(
            "engine",
            "model",
            "response_format",
            "tool_choice",
            "prompt",
            "temperature",
            "max_tokens",
            "shots",
            "adapt",
            "seed",
        ),
        *("rewrite", "context", "repairs", "retries", "patience", "isolate_crashes"),
        *("provider", "prompt_digest", "judge"),
        *("dataset", "split", "tasks", "limit", "where", "sample", "sample_seed", "steps", "shard", "labelled"),
        *("repeats", "concurrency", "streaming", "timeout", "rpm", "tpm", "rate", "plain_share"),
        "engine.slots",
        *("judge.default_dialect", "judge.duplicate_keys", "judge.extra_fields", "judge.fences", "judge.formats"),
        *("judge.ignored_fields", "judge.reasoning", "judge.timeout", "judge.validator", "compare.total"),
    ]
