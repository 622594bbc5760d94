from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.verdicts.answer_text import (
    DEEPEST,
    LONGEST_TEXT,
    AnswerDocument,
    NotJson,
    SyntaxReason,
    read_answer,
    too_deep,
)
from pytest_jsbench.verdicts.verdicts import JudgePolicy, Note

DEFAULT = JudgePolicy()

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=20,
)


def document(text: str, policy: JudgePolicy = DEFAULT) -> AnswerDocument:
    read = read_answer(text, policy)
    assert isinstance(read, AnswerDocument), read
    return read


def fault(text: str, policy: JudgePolicy = DEFAULT) -> NotJson:
    read = read_answer(text, policy)
    assert isinstance(read, NotJson), read
    return read


@given(json_values, st.booleans(), st.sampled_from(["", "\n", " \t\r\n"]))
def test_whatever_the_encoder_writes_is_read_as_it_was(value: object, ascii_only: bool, around: str) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert document(around + text + around) == AnswerDocument(instance=value)
    assert document(f"```json\n{text}\n```").instance == value


@given(st.text(alphabet='{}[]",:\\ \n`~aeu0.-1tnf\ud800\ufeff\u00a0<think>/', max_size=40))
def test_no_text_breaks_the_reader_or_says_more_than_json_does(text: str) -> None:
    read = read_answer(text, DEFAULT)
    if isinstance(read, AnswerDocument) and not read.notes:
        assert json.loads(text) == read.instance


@pytest.mark.parametrize("text", ["null", '"x"', "5", "[]", "{}", "true", "-0.0", '"json"', "1e2"])
def test_any_json_value_alone_is_a_document(text: str) -> None:
    assert document(text) == AnswerDocument(instance=json.loads(text))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \r\n\t ", "empty"),
        ('{"a": NaN}', "nan_or_infinity"),
        ('{"a": -Infinity}', "nan_or_infinity"),
        ("Infinity", "nan_or_infinity"),
        ('{"a": 1e999}', "number_out_of_range"),
        ("-1e400", "number_out_of_range"),
        ("1" * 5000, "number_out_of_range"),
        ("-" + "1" * 4301, "number_out_of_range"),
        ("0." + "1" * 5000, "number_out_of_range"),
        ('{"a": "\\ud800"}', "lone_surrogate"),
        ('{"\\udc00": 1}', "lone_surrogate"),
        ('{"a": "\ud800"}', "lone_surrogate"),
        ("\ufeff{}", "bom"),
        ("\u00a0{}", "white_space"),
        ('{"a": 1}\u00a0', "trailing_text"),
        ("\f{}\f", "white_space"),
        ('{"a": 1} {"b": 2}', "several_documents"),
        ('{"a": 1}\n[2]', "several_documents"),
        ('{"a": 1} I hope this helps!', "trailing_text"),
        ('{"a": 1}<|eot|>', "trailing_text"),
        ('{"a": 1}{', "trailing_text"),
        ('{"a": 1}\n```', "trailing_text"),
        ('so {"a": 1}', "prose"),
        ("I cannot answer that.", "prose"),
        ("null hypothesis", "prose"),
        ("True", "prose"),
        ("undefined", "prose"),
        ('"a": 1}', "trailing_text"),
        ('json{"a": 1}', "prose"),
        ("`{}`", "prose"),
        ('<think>hm</think>{"a": 1}', "reasoning_preamble"),
        ('hm</think>\n{"a": 1}', "reasoning_preamble"),
        ("<think>{}", "reasoning_preamble"),
        ("{'a': 1}", "malformed"),
        ("{a: 1}", "malformed"),
        ('{"a": 1} // one'[:8] + "// one\n}", "trailing_text"),
        ('{"a": 1, // one\n"b": 2}', "malformed"),
        ('{"a": 1,}', "malformed"),
        ("[1,]", "malformed"),
        ("01", "malformed"),
        ("+1", "malformed"),
        (".5", "malformed"),
        ("5.", "malformed"),
        ("0x10", "malformed"),
        ('{"a": "x\ny"}', "malformed"),
        ('{"a": "\\x"}', "malformed"),
        ("{\u2028}", "malformed"),
        ("{\x00}", "malformed"),
        ("[" * (DEEPEST + 1), "too_deep"),
        ("[" * 100_000 + "]" * 100_000, "too_deep"),
        ('{"a":' * 100_000, "too_deep"),
        ('"' + "x" * LONGEST_TEXT + '"', "too_large"),
    ],
)
def test_each_way_not_to_be_one_document_has_its_reason(text: str, reason: str) -> None:
    assert fault(text).reason == reason


def test_a_document_that_breaks_off_anywhere_is_incomplete() -> None:
    whole = '{"a": [1.5e-3, -2, true, false, null, "x\\u00e9\\n"], "b": {"c": 1}, "d": [{}, []]}'
    reasons = {fault(whole[:length]).reason for length in range(1, len(whole))}
    assert reasons == {SyntaxReason.INCOMPLETE}


def test_the_limits_themselves_are_allowed() -> None:
    assert document("[" * DEEPEST + "]" * DEEPEST).notes == ()
    assert document("1" * 4300).instance == int("1" * 4300)


def test_brackets_inside_strings_are_not_depth() -> None:
    text = json.dumps(["[{" * 500 + '\\"[' * 500])
    assert not too_deep(text, 2)
    assert document(text).instance == json.loads(text)


def test_many_brackets_side_by_side_are_not_depth() -> None:
    assert document("[" + "[]," * 10_000 + "{}]").instance == [*[[]] * 10_000, {}]


@pytest.mark.parametrize("text", ['{"a": "x", "a": 1}', '```json\n[{"b": {"a": 1, "a": 1}}]\n```'])
def test_duplicate_keys_are_an_error_where_the_policy_says_so(text: str) -> None:
    refused = read_answer(text, JudgePolicy(duplicate_keys="fail"))
    assert isinstance(refused, NotJson)
    assert (refused.reason, refused.message) == (
        SyntaxReason.DUPLICATE_KEYS,
        "an object with the same key twice; expected each key once",
    )
    assert isinstance(read_answer('[{"a": 1}, {"a": 1}]', JudgePolicy(duplicate_keys="fail")), AnswerDocument)


def test_the_last_of_duplicate_keys_wins_and_is_noted() -> None:
    assert document('{"a": "x", "a": 1}') == AnswerDocument(instance={"a": 1}, notes=(Note.DUPLICATE_KEYS,))


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"a": 1}\n```',
        '```JSON\n{"a": 1}\n```',
        '```\n{"a": 1}\n```',
        '~~~json\n{"a": 1}\n~~~',
        '~~~~~\n{"a": 1}\n~~~~~~',
        '```json\r\n{"a": 1}\r\n```\r\n',
        '```json  \n\n{"a":\n1}\n\n```  \n',
        '\n```json\n{"a": 1}\n   ```',
        '````json\n{"a": 1}\n````',
    ],
)
def test_a_fence_around_the_whole_answer_is_opened_and_noted(text: str) -> None:
    assert document(text) == AnswerDocument(instance={"a": 1}, notes=(Note.FENCED,))
    assert fault(text, JudgePolicy(fences="forbid")).reason is SyntaxReason.FENCE_FORBIDDEN


def test_an_unclosed_fence_runs_to_the_end_and_is_noted() -> None:
    assert document('```json\n{"a": 1}') == AnswerDocument(instance={"a": 1}, notes=(Note.UNCLOSED_FENCE,))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('Here you are:\n```json\n{"a": 1}\n```', "fence_not_alone"),
        ('```json\n{"a": 1}\n```\nI hope this helps!', "fence_not_alone"),
        ("```json\n{}\n```\n```json\n{}\n```", "fence_not_alone"),
        ('```json\n{"a":\n```\n1}\n```', "fence_not_alone"),
        ('```json {"a": 1}```', "fence_not_alone"),
        ('```python\n{"a": 1}\n```', "fence_not_json"),
        ('```json5\n{"a": 1}\n```', "fence_not_json"),
        ('```jsonc\n{"a": 1}\n```', "fence_not_json"),
        ("```json\n```", "empty"),
        ("```", "empty"),
        ('```json\n{"a": 1\n```', "incomplete"),
        ('```json\nSure: {"a": 1}\n```', "prose"),
        ('~~~json\n{"a": 1}\n```', "trailing_text"),
    ],
)
def test_no_other_fence_is_opened(text: str, reason: str) -> None:
    assert fault(text).reason == reason


def test_a_fence_inside_a_string_is_data() -> None:
    value = {"a": "```json\nx\n```"}
    assert document(json.dumps(value)).instance == value
    assert document(f"```json\n{json.dumps(value)}\n```").instance == value


def test_reasoning_before_the_answer_is_dropped_only_when_asked() -> None:
    strip = JudgePolicy(reasoning="strip")
    text = '<think>\nwhat about {}?\n</think>\n\n```json\n{"a": 1}\n```'
    assert document(text, strip).instance == {"a": 1}
    assert document(text, strip).notes == (Note.REASONING_STRIPPED, Note.FENCED)
    assert fault("<think>a</think><think>b</think>{}", strip).reason is SyntaxReason.REASONING_PREAMBLE
    assert fault("<think>never ends {}", strip).reason is SyntaxReason.REASONING_PREAMBLE
    assert document('{"a": "<think>x</think>"}').instance == {"a": "<think>x</think>"}
