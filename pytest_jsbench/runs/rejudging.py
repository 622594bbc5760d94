"""Rejudging: an attempt's generation becomes a verdict, in the same way during the run and at any time later."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_jsbench.core.generations import Completion
from pytest_jsbench.verdicts import Judge, Note, Verdict, decide

if TYPE_CHECKING:
    from pytest_jsbench.adaptation import Change
    from pytest_jsbench.core.cases import Schema
    from pytest_jsbench.core.generations import Generation
    from pytest_jsbench.runs.records import Record


def verdict_on(generation: Generation, schema: Schema, changes: tuple[Change, ...], judge: Judge) -> Verdict:
    """The verdict, with notes: the answer quoted a secret, or it breaks a keyword that the engine was never told."""
    verdict = decide(generation, schema, judge)
    if isinstance(generation, Completion) and generation.secret_replaced:
        verdict = replace(verdict, notes=(*verdict.notes, Note.SECRET_REPLACED))
    dropped = {change.keyword for change in changes if change.kind == "widened"}
    if dropped.isdisjoint(violation.keyword for violation in verdict.violations):
        return verdict
    return replace(verdict, notes=(*verdict.notes, Note.ADAPTATION_LOSS))


def judge_again(record: Record, judge: Judge) -> Record:
    """The record with the verdict of this judge: passed ones have no codes, those never asked are unchanged."""
    if record.generation is None or record.schema is None:
        return record
    verdict = verdict_on(record.generation, record.schema, record.changes, judge)
    return replace(record, verdict=verdict, codes=() if verdict.passed else record.codes)
