from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_jsbench.core.json_values import too_deep
from pytest_jsbench.verdicts.answer_text import DEEPEST, STRING, AnswerDocument, NotJson, read_answer
from pytest_jsbench.verdicts.verdicts import JudgePolicy, Note, SyntaxReason
from tests.support.fuzzing import examples
from tools.syntax_examples import REASONS

DEFAULT = JudgePolicy()
STRIP = JudgePolicy(reasoning="strip")

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


def doubles(value: object) -> object:
    """Return the value with its Decimals rounded."""
    return json.loads(json.dumps(value, default=float))


def fault(text: str, policy: JudgePolicy = DEFAULT) -> NotJson:
    read = read_answer(text, policy)
    assert isinstance(read, NotJson), read
    return read


@pytest.mark.slow
@examples(200)
@given(json_values, st.booleans(), st.sampled_from(["", "\n", " \t\r\n"]))
def test_encoded_values_are_read_back_unchanged(value: object, ascii_only: bool, around: str) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert doubles(document(around + text + around).instance) == value
    assert doubles(document(f"```json\n{text}\n```").instance) == value


@examples(200)
@given(st.text(alphabet='{}[]",:\\ \n`~aeu0.-1tnf\ud800\ufeff\u00a0<think>/', max_size=40))
def test_any_text_is_read_as_a_json_value_or_rejected(text: str) -> None:
    read = read_answer(text, DEFAULT)
    if isinstance(read, AnswerDocument) and not read.notes:
        assert json.loads(text) == doubles(read.instance)


def test_every_reason_has_examples_in_the_order_of_decision() -> None:
    assert list(REASONS) == list(SyntaxReason)


@pytest.mark.parametrize("reason", SyntaxReason)
def test_each_way_not_to_be_one_document_has_its_reason(reason: SyntaxReason) -> None:
    row = REASONS[reason]
    assert {text[:80]: fault(text, row.policy).reason for text in row.texts} == {
        text[:80]: reason for text in row.texts
    }


#: Texts with two faults, or with one that looks like another.
TELLING: dict[str, list[str]] = {
    "nan_or_infinity": ["{\"a\": NaN, 'b'}"],
    "number_out_of_range": ["1" * 5000, "0." + "1" * 5000],
    "lone_surrogate": ['{"a": "\ud800"}', '{"\\udc00": 1}'],
    "too_deep": ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000],
    # a tag in a string is data; elsewhere it ends reasoning, even if that looks like an answer
    "reasoning_preamble": ['[draft] </think> {"a": 1}', '{"a": 1}</think>{"a": 2}'],
    "several_documents": ['{"a": 1}\u00a0{"b": 2}', '{"a": 1}{'],
    "trailing_text": ['{"a": 1} [a note]'],
    # invisible characters do not hide other faults
    "incomplete": ['\u200b{"a":'],
    "white_space": ["{\x00}"],
    # the first fault from the left decides, and a truncated value counts only where a value is allowed
    "malformed": [
        "{'b': 1, \"a\": NaN}", '{"a": "x\ny"}', '{"a": "</think>", }', '["a"t', "[u12", "[1.5.", "[1,,", "{a: 1}",
        '{"a": "\\x"}', '{\\"a\\": 1}', '{"a": 1, // one\n"b": 2}', "+1", ".5", "0x10", "1,000", "[1,]",
        "undefined",
    ],
    # a sentence is not JSON because its first word is
    "prose": [
        "\u00a0Sure.", "Sure <think> so", "1. First, second", "true story", "Infinity is large", 'json{"a": 1}',
        'so {"a": 1}', "a: 1",
    ],
}  # fmt: skip


@pytest.mark.parametrize(("reason", "text"), [(reason, text) for reason, texts in TELLING.items() for text in texts])
def test_a_text_with_two_faults_has_one_reason(reason: str, text: str) -> None:
    assert fault(text).reason == reason


def test_document_truncated_anywhere_is_incomplete() -> None:
    whole = '{"a": [1.5e-3, -2, true, false, null, "x\\u00e9\\n"], "b": {"c": 1}, "d": [{}, []]}'
    reasons = {fault(whole[:length]).reason for length in range(1, len(whole))}
    assert reasons == {SyntaxReason.INCOMPLETE}


def test_the_limits_themselves_are_allowed() -> None:
    assert document("[" * DEEPEST + "]" * DEEPEST).notes == ()
    assert document("1" * 4300).instance == int("1" * 4300)


@pytest.mark.slow
def test_arrays_and_objects_are_read_up_to_the_memory_limit() -> None:
    most = 500_000
    assert document("[" + "[]," * (most - 2) + "{}]").instance == [*[[]] * (most - 2), {}]
    assert fault("[" + "[]," * (most - 1) + "{}]").reason == SyntaxReason.TOO_LARGE
    assert document(json.dumps(["[{" * most])).notes == ()


def test_brackets_inside_strings_are_not_depth() -> None:
    text = json.dumps(["[{" * 500 + '\\"[' * 500])
    assert not too_deep(text, 2)
    assert document(text).instance == json.loads(text)


@pytest.mark.parametrize("string", [r"\\", r"\"", r"\\\"[", r"[[\\", "é[[", "\ud800[[", ""])
def test_depth_ignores_brackets_in_strings(string: str) -> None:
    for nested, depth in ((f'["{string}", [["{string}"], "{string}"]]', 3), (f'{{"{string}": ["{string}"', 2)):
        # an unterminated string contains the rest
        assert too_deep(nested + ' "' + "[{" * 10, depth - 1)
        assert not too_deep(nested + ' "' + "[{" * 10, depth)


@pytest.mark.parametrize("text", ['{"a": "x", "a": 1}', '```json\n[{"b": {"a": 1, "a": 1}}]\n```'])
def test_duplicate_keys_are_an_error_if_the_policy_requires_it(text: str) -> None:
    refused = read_answer(text, JudgePolicy(duplicate_keys="fail"))
    assert isinstance(refused, NotJson)
    assert (refused.reason, refused.message) == (
        SyntaxReason.DUPLICATE_KEYS,
        'an object with the same key twice: "a"; expected each key once',
    )
    assert isinstance(read_answer('[{"a": 1}, {"a": 1}]', JudgePolicy(duplicate_keys="fail")), AnswerDocument)


def test_the_last_of_duplicate_keys_wins_and_is_noted() -> None:
    assert document('{"a": "x", "a": 1}') == AnswerDocument(instance={"a": 1}, notes=(Note.DUPLICATE_KEYS,))


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"a": 1}\n```', '```JSON\n{"a": 1}\n```', '```\n{"a": 1}\n```',
        '~~~json\n{"a": 1}\n~~~', '~~~~~\n{"a": 1}\n~~~~~~', '```json\r\n{"a": 1}\r\n```\r\n',
        '```json  \n\n{"a":\n1}\n\n```  \n', '\n```json\n{"a": 1}\n   ```',
        '````json\n{"a": 1}\n````', '```json\n{"a": 1}```', '~~~json\n{"a":\n1} ~~~~\n',
        '    ```json\n    {"a": 1}\n    ```', '```json {"a": 1}```', '```JSON{"a": 1} ```',
        '``` {"a": 1} ```', '~~~{"a": 1}~~~',
    ],
)  # fmt: skip
def test_a_fence_around_the_whole_answer_is_opened_and_noted(text: str) -> None:
    assert document(text) == AnswerDocument(instance={"a": 1}, notes=(Note.FENCED,))
    assert fault(text, JudgePolicy(fences="forbid")).reason is SyntaxReason.FENCE_FORBIDDEN


def test_an_unclosed_fence_runs_to_the_end_and_is_noted() -> None:
    assert document('```json\n{"a": 1}') == AnswerDocument(instance={"a": 1}, notes=(Note.UNCLOSED_FENCE,))


#: Texts with a fence that is not opened, or whose contents are not a document.
OTHER_FENCES: dict[str, list[str]] = {
    "fence_not_alone": [
        'Here you are:\n```json\n{"a": 1}\n```', '```json\n{"a": 1}\n```\nI hope this helps!',
        "```json\n{}\n```\n```json\n{}\n```", '```json\n{"a":\n```\n1}\n```', '```json {"a": 1}``',
        '~~~json\n{"a": 1}\n```', '````json\n{"a": 1}\n```',
    ],
    "fence_not_json": ['```python\n{"a": 1}\n```', '```json5\n{"a": 1}\n```', '```jsonc\n{"a": 1}\n```'],
    "prose": ['```python {"a": 1}```', '```json5 {"a": 1}```', '```json\nSure: {"a": 1}\n```'],
    "empty": ["```json```", "```json\n```", "```"],
    "incomplete": ['```json\n{"a": 1\n```', '```json\n{"a": "```'],
}  # fmt: skip


@pytest.mark.parametrize(("reason", "text"), [(name, text) for name, texts in OTHER_FENCES.items() for text in texts])
def test_no_other_fence_is_opened(reason: str, text: str) -> None:
    assert fault(text).reason == reason


def test_a_fence_inside_a_string_is_data() -> None:
    value = {"a": "```json\nx\n```"}
    assert document(json.dumps(value)).instance == value
    assert document(f"```json\n{json.dumps(value)}\n```").instance == value


@pytest.mark.parametrize(
    "reasoning",
    [
        "<think>\nwhat about {}?\n</think>", "what about {}?</think>",
        '{"a": 2}? No.\n</think>\n', "<think>a</think>\n<think>b</think>",
        "<think>a <think>b</think> c</think>", "<think>not <think>, but</think>",
        "<thinking>a</thinking>", "<THINK>a</THINK>", "[THINK]a[/THINK]",
        "<seed:think>a</seed:think>",
    ],
)  # fmt: skip
@pytest.mark.parametrize("answer", ['{"a": 1}', '```json\n{"a": 1}```', '["</think>"]', "5"])
def test_reasoning_before_the_answer_is_dropped_only_if_set(reasoning: str, answer: str) -> None:
    text = f"{reasoning}\n\n{answer}"
    bare = document(answer)
    assert document(text, STRIP) == AnswerDocument(instance=bare.instance, notes=(Note.REASONING_STRIPPED, *bare.notes))
    assert fault(text).reason is SyntaxReason.REASONING_PREAMBLE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<think>never ends {}", "unclosed_reasoning"),
        ("<think>hm</think>", "empty"),
        ('<think>hm</think>{"a":', "incomplete"),
        ('<think>hm</think>Sure: {"a": 1}', "prose"),
        ('<think>{"a": 1}</think>{"a": 1,}', "malformed"),
    ],
)
def test_text_after_reasoning_is_read_as_an_answer(text: str, reason: str) -> None:
    assert fault(text, STRIP).reason == reason


@pytest.mark.parametrize("text", ['{"a": "<think>x</think>"}', '```json\n["</think>5"]\n```', '"</think>5"'])
def test_a_document_that_quotes_the_tags_has_no_reasoning(text: str) -> None:
    assert document(text, STRIP) == document(text)


words = st.text("aZé .!?'", min_size=1).filter(lambda text: not text.isspace())
blanks = st.sampled_from(["\u00a0", "\u2028", "\u200b", "\f", "\u3000", "\ufeff"])
containers = st.builds(json.dumps, st.lists(json_values) | st.dictionaries(st.just("é\\"), json_values))
#: Endings of any text that is the beginning of a document, except for brackets.
_ENDINGS = [
    in_string + value
    for in_string in ("", '"', 'n"', '0"', '00"', '000"', '0000"', "x", '\\udc00"', '\\"', "\\n")
    for value in ("", "0", ":0", '"":0', '"', '":0', "true", "rue", "ue", "e", "alse", "lse", "se", "ull", "ll", "l")
]


def can_be_ended(text: str) -> bool:
    """Return whether some ending turns the text into a document."""
    brackets = "".join({"{": "}", "[": "]"}.get(c, "") or "<" * (c in "]}") for c in STRING.sub("", text))
    while (closed := re.sub(r"[\]}]<", "", brackets)) != brackets:
        brackets = closed
    return any(is_document(text + ending + brackets[::-1]) for ending in _ENDINGS)


def is_document(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


@pytest.mark.slow
@examples(200)
@given(containers, st.data())
def test_a_mutated_document_has_the_reason_of_its_mutation(text: str, data: st.DataObject) -> None:
    other, word, blank = data.draw(containers), data.draw(words), data.draw(blanks)
    cut = data.draw(st.integers(1, len(text) - 1))
    mutations = {
        f"{text} {word}": SyntaxReason.TRAILING_TEXT,
        f"word {word} {text}": SyntaxReason.PROSE,
        f"{text}\n{other}": SyntaxReason.SEVERAL_DOCUMENTS,
        f"{text}{blank}": SyntaxReason.WHITE_SPACE,
        f"[{blank}{text}]": SyntaxReason.WHITE_SPACE,
        f"[{text},]": SyntaxReason.MALFORMED,
        f"{text}]": SyntaxReason.MALFORMED,
        f"<think>{word}</think>{text}": SyntaxReason.REASONING_PREAMBLE,
        f"<think>{text}": SyntaxReason.UNCLOSED_REASONING,
        f"{word}:\n```json\n{text}\n```": SyntaxReason.FENCE_NOT_ALONE,
        text[:cut]: SyntaxReason.INCOMPLETE,
    }
    assert {mutated: fault(mutated).reason for mutated in mutations} == mutations


@examples(200)
@given(st.text(alphabet='{}[]",:\\ 0.-eutrnlfas1', max_size=14).map(lambda text: "[" + text))
def test_a_text_is_incomplete_exactly_when_it_can_be_ended(text: str) -> None:
    read = read_answer(text, DEFAULT)
    if isinstance(read, NotJson) and read.reason in {SyntaxReason.INCOMPLETE, SyntaxReason.MALFORMED}:
        assert can_be_ended(text.strip(" ")) is (read.reason is SyntaxReason.INCOMPLETE)
