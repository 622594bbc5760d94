"""For each reason why a text is not one JSON document: its meaning and examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_jsbench.verdicts.verdicts import JudgePolicy, SyntaxReason

_FENCED = '```json\n{"a": 1}\n```'


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonExamples:
    """One row of the page's table."""

    #: End of a sentence that begins with "the text".
    meaning: str
    texts: tuple[str, ...]
    policy: JudgePolicy = field(default_factory=JudgePolicy)
    #: Description of the examples if they are too long to show.
    shown: str | None = None


REASONS: Mapping[SyntaxReason, ReasonExamples] = {
    SyntaxReason.TOO_LARGE: ReasonExamples(
        meaning="is longer than 10 million characters, or has more than 500,000 arrays and objects",
        texts=('"' + "x" * 10_000_000 + '"',),
        shown="a string of 10 million characters in its quotes",
    ),
    SyntaxReason.FENCE_FORBIDDEN: ReasonExamples(
        meaning="begins with a fence, and `--jsbench-fences=forbid` is set",
        texts=(_FENCED,),
        policy=JudgePolicy(fences="forbid"),
    ),
    SyntaxReason.FENCE_NOT_JSON: ReasonExamples(
        meaning="begins with a fence of another language",
        texts=('```python\n{"a": 1}\n```', '```json5\n{"a": 1}\n```'),
    ),
    SyntaxReason.TOO_DEEP: ReasonExamples(
        meaning="nests more than 128 levels deep", texts=("[" * 129 + "]" * 129,), shown="129 times `[`, then `]`"
    ),
    SyntaxReason.EMPTY: ReasonExamples(
        meaning="is empty, has an empty fence, or ends with the reasoning",
        texts=("", " \r\n", "\u00a0", "```json\n```"),
    ),
    SyntaxReason.BOM: ReasonExamples(meaning="begins with a byte order mark", texts=('\ufeff{"a": 1}',)),
    SyntaxReason.NAN_OR_INFINITY: ReasonExamples(
        meaning="has a number that JSON does not have", texts=('{"a": NaN}', "-Infinity")
    ),
    SyntaxReason.NUMBER_OUT_OF_RANGE: ReasonExamples(
        meaning="has a number beyond the range of a double, or with more than 4,300 digits",
        texts=('{"a": 1e400}', "-1e309"),
    ),
    SyntaxReason.LONE_SURROGATE: ReasonExamples(
        meaning="has half a surrogate pair, which UTF-8 cannot encode", texts=('{"a": "\\ud800"}',)
    ),
    SyntaxReason.UNCLOSED_REASONING: ReasonExamples(
        meaning="begins with a reasoning block that never ends, so that there is no answer",
        texts=('<think>It could be {"a": 1}', "[THINK]Hm"),
    ),
    SyntaxReason.REASONING_PREAMBLE: ReasonExamples(
        meaning="has [reasoning](judging.md#reasoning-and-fences) before the answer",
        texts=('<think>Hm.</think>{"a": 1}', 'Hm.</think>\n{"a": 1}', '<think>{"a": 2}</think><think></think>{"a": 1}'),
    ),
    SyntaxReason.FENCE_NOT_ALONE: ReasonExamples(
        meaning="has a fence with text before or after it",
        texts=(
            f"Here you are:\n{_FENCED}", f"{_FENCED}\nI hope this helps!", '{"a": 1}\n```',
            '```json {"a": 1}``` Done.',
        ),
    ),
    SyntaxReason.SEVERAL_DOCUMENTS: ReasonExamples(
        meaning="contains more than one document",
        texts=('{"a": 1} {"b": 2}', '{"a": 1},\n{"b": 2}', '{"a": 1}\n{"b":', "1 2", '"a" true'),
    ),
    SyntaxReason.TRAILING_TEXT: ReasonExamples(
        meaning="has words after the document",
        texts=('{"a": 1} I hope this helps!', '{"a": 1}<|eot|>', '"Paris" is the capital', '{"a": 1} // one'),
    ),
    SyntaxReason.INCOMPLETE: ReasonExamples(
        meaning="ends before the document is complete",
        texts=('{"a":', '{"a":"<think>}', '["x", tru', "tru", "-", "1.", "2e"),
    ),
    SyntaxReason.WHITE_SPACE: ReasonExamples(
        meaning="has an invisible character where JSON does not allow it",
        texts=('{"a": 1}\u00a0', "\u00a0{}", '{\u2028"a": 1}', "\u200b[]", "\f[]"),
    ),
    SyntaxReason.MALFORMED: ReasonExamples(
        meaning="begins like JSON but violates its grammar",
        texts=(
            "{'a': 1}", '{"a": 1,}', '{"a": 1}}', '"a": 1', "[1 2]", "01", "True", "// one\n{}",
            '["a"e', "2024-01-01",
        ),
    ),
    SyntaxReason.PROSE: ReasonExamples(
        meaning="has words instead of the document, or before it",
        texts=("I cannot answer that.", 'Sure: {"a": 1}', "null hypothesis", "5 apples", "NaN is no number", "`{}`"),
    ),
    SyntaxReason.DUPLICATE_KEYS: ReasonExamples(
        meaning="has a key twice in an object, and `--jsbench-duplicate-keys=fail` is set; otherwise a note of "
        "the same name is added, and the last value counts",
        texts=('{"a": 1, "a": 2}',),
        policy=JudgePolicy(duplicate_keys="fail"),
    ),
}  # fmt: skip
