"""A verdict in words: on one line, or on a few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pytest_jsbench.core.text import printable
from pytest_jsbench.verdicts.verdicts import Note, Verdict, Violation

_EXCERPT = 160
_VIOLATIONS = 3


def headline(verdict: Verdict, *, remark: str = "") -> str:
    """One line: the failure type, its reason and a remark, then the message."""
    kind = verdict.failure_type.value if verdict.failure_type else "passed"
    reason = f" ({verdict.reason})" if verdict.reason else ""
    return f"{kind}{reason}{remark}" + (f": {printable(verdict.message)}" if verdict.message else "")


def verdict_text(verdict: Verdict, text: str | None) -> str:
    """The headline, each place that is wrong, and an excerpt of the answer, where there is one."""
    lines = [headline(verdict), *_details(verdict)]
    if text is not None:
        lines.append(f"  answer: {_excerpt(text)}")
    return "\n".join(lines)


def _details(verdict: Verdict) -> Iterator[str]:
    for number, violation in enumerate(verdict.violations[:_VIOLATIONS]):
        yield _violation(violation, told=number == 0)
    if (more := len(verdict.violations) - _VIOLATIONS) > 0:
        yield f"  … and {more} more"
    for fault, paths in extra_fields(verdict):
        shown = ", ".join(printable(path, 80) for path in paths[:5])
        yield f"  {fault}: {shown}{', …' if len(paths) > 5 else ''}"
    if Note.SECRET_REPLACED in verdict.notes:
        yield "  secret_replaced: it quoted a secret of this run, and was judged with * in its place"
    if Note.CAPITALS in verdict.notes:
        yield "  capitals: a value of the schema's list but for its capitals, which not every provider guarantees"
    if Note.ADAPTATION_LOSS in verdict.notes:
        yield "  adaptation_loss: it breaks a keyword that was left out of the schema that was sent"
    if Note.NOT_TEXT in verdict.notes:
        yield "  not_text: the server sent a JSON value where its API has a text, and that was judged as JSON text"
    if Note.NOT_ENFORCED in verdict.notes:
        yield "  not_enforced: what carried the request left the schema out"


def extra_fields(verdict: Verdict) -> Iterator[tuple[str, list[str]]]:
    """What is wrong with the extra fields, each with the paths of those it is wrong with."""
    # paths can be alike: those of a redacted verdict are
    misplaced = Counter(verdict.misplaced_fields)
    unnamed = list((Counter(verdict.extra_fields) - misplaced).elements())
    for fault, paths in (
        ("not in the schema", unnamed),
        ("elsewhere in the schema, not here", list(misplaced.elements())),
    ):
        if paths:
            yield fault, paths


def _violation(violation: Violation, *, told: bool) -> str:
    where = f"  {printable(violation.keyword, 60)} at {printable(violation.instance_path, 120, cut='middle')}"
    message = "" if told else f": {printable(violation.message, 200)}"
    return f"{where} [schema {printable(violation.schema_path, 120, cut='middle')}]{message}"


def _excerpt(text: str) -> str:
    """Beginning and end of the answer: a truncated one shows where it broke off."""
    if not text:
        return "(empty)"
    if len(text) <= 2 * _EXCERPT:
        return printable(text, 2 * _EXCERPT)
    return f"{printable(text[:_EXCERPT], _EXCERPT)} … {printable(text[-_EXCERPT // 2 :], _EXCERPT)}"
