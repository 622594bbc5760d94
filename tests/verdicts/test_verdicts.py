from __future__ import annotations

from pytest_jsbench.verdicts import FailureType, Verdict
from pytest_jsbench.verdicts.verdicts import verdict_text


def lines(*extra: str, misplaced: tuple[str, ...] = ()) -> list[str]:
    kind = FailureType.HALLUCINATION
    verdict = Verdict(failure_type=kind, valid=True, extra_fields=extra, misplaced_fields=misplaced)
    return verdict_text(verdict, None).splitlines()[1:]


def test_fields_that_the_schema_names_elsewhere_are_not_said_to_be_missing_from_it() -> None:
    assert lines("$.z", "$.b", misplaced=("$.b",)) == [
        "  not in the schema: $.z",
        "  elsewhere in the schema, not here: $.b",
    ]
    assert lines("$.b", misplaced=("$.b",)) == ["  elsewhere in the schema, not here: $.b"]
    assert lines("$.z") == ["  not in the schema: $.z"]


def test_paths_that_are_not_told_are_counted_all_the_same() -> None:
    redacted = "(redacted)"
    assert lines(redacted, redacted, redacted, misplaced=(redacted,)) == [
        "  not in the schema: (redacted), (redacted)",
        "  elsewhere in the schema, not here: (redacted)",
    ]
