"""The breakdown by keyword: which of them answers fail, and how answers fare whose schema uses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_jsbench.generations import Decided
from pytest_jsbench.statistics import Proportion, clustered, proportion
from pytest_jsbench.verdicts.subschemas import children

if TYPE_CHECKING:
    from pytest_jsbench.cases import CaseKey, Schema
    from pytest_jsbench.records import Record

#: the keywords that can make an instance invalid, in all dialects; annotations and definitions are none
KEYWORDS = frozenset(
    {
        "$dynamicRef", "$recursiveRef", "$ref", "additionalItems", "additionalProperties", "allOf", "anyOf", "const",
        "contains", "dependencies", "dependentRequired", "dependentSchemas", "else", "enum", "exclusiveMaximum",
        "exclusiveMinimum", "format", "if", "items", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum",
        "minContains", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "oneOf", "pattern",
        "patternProperties", "prefixItems", "properties", "propertyNames", "required", "then", "type",
        "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class KeywordMetrics:
    """What became of the attempts that one keyword has to do with."""

    #: answers that broke it, which counts once for each that it breaks; None where decisions were asked for, which
    #: do not say of which keyword they are
    failures: int | None
    #: wrong decisions / decisions about labelled answers whose schema uses it
    wrong_decisions: Proportion
    #: passed attempts / attempts whose schema uses it; attempts that never ran are in neither
    pass_rate: Proportion

    @property
    def faults(self) -> int:
        """What speaks against the engine: answers that broke it, or wrong decisions."""
        return self.wrong_decisions.successes if self.failures is None else self.failures

    def to_dict(self) -> dict[str, Any]:
        """The metrics as JSON values; a rate over nothing is None."""
        rate = self.pass_rate
        return {
            "failures": self.failures,
            "decisions": self.wrong_decisions.n,
            "wrong_decisions": self.wrong_decisions.successes,
            "attempts": rate.n,
            "passed": rate.successes,
            "pass_rate": rate.value,
            "pass_rate_ci_low": rate.ci_low,
            "pass_rate_ci_high": rate.ci_high,
        }


def used_keywords(schema: Schema | None) -> frozenset[str]:
    """The keywords in a schema or below it that can make an instance invalid."""
    found: set[str] = set()
    pending: list[Mapping[str, Any]] = [schema] if isinstance(schema, Mapping) else []
    while pending:
        subschema = pending.pop()
        found.update(KEYWORDS.intersection(subschema))
        pending += children(subschema)
    return frozenset(found)


def by_keyword(records: Iterable[Record]) -> dict[str, KeywordMetrics]:
    """The breakdown of these records, most failures first; cases whose own schema is broken are left out."""
    used: dict[CaseKey, frozenset[str]] = {}
    attempts: Counter[CaseKey] = Counter()
    passed: Counter[CaseKey] = Counter()
    failures: Counter[str] = Counter()
    wrong: Counter[CaseKey] = Counter()
    decisions: Counter[CaseKey] = Counter()
    for record in records:
        if record.excluded:
            continue
        if record.key not in used:
            kept = record.redacted
            used[record.key] = used_keywords(record.schema) if kept is None else frozenset(kept.keywords)
        attempts[record.key] += 1
        passed[record.key] += record.verdict.passed
        if isinstance(record.generation, Decided):
            made = [decision for decision in record.generation.decisions if decision.accepted is not None]
            wrong[record.key] += sum(decision.wrong for decision in made)
            decisions[record.key] += len(made)
        failures.update({violation.keyword for violation in record.verdict.violations})
    users: dict[str, list[CaseKey]] = {name: [] for name in failures}
    for key, names in used.items():
        for name in names:
            users.setdefault(name, []).append(key)
    found = {
        name: KeywordMetrics(
            failures=None if decisions else failures[name],
            wrong_decisions=proportion(sum(wrong[key] for key in keys), sum(decisions[key] for key in keys)),
            pass_rate=clustered((passed[key], attempts[key]) for key in keys),
        )
        for name, keys in users.items()
    }
    ranked = sorted(found.items(), key=lambda pair: (-pair[1].faults, -pair[1].pass_rate.n, pair[0]))
    return dict(ranked)
