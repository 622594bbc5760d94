"""Fields of an instance that its schema does not name: here, or anywhere."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.locations import json_path
from pytest_jsbench.schemas.references import References
from pytest_jsbench.verdicts.field_names import Survey, all_names, by_spelling, spelling

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pytest_jsbench.schemas.dialects import Dialect
    from pytest_jsbench.schemas.locations import Path

#: extra fields that a verdict lists
_MOST_LISTED = 100
#: what an editor reads at the root of any JSON file: the schema's URI, and no field of the answer
_POINTER_TO_SCHEMA = "$schema"


class ExtraFieldReason(StrEnum):
    """Why an answer's extra fields are not named."""

    #: each is the name of a field elsewhere in the schema
    MISPLACED = "misplaced"
    #: of one at least the schema has no such name anywhere
    UNNAMED = "unnamed"


class ExtraFields:
    """The extra fields of one instance, in its order; of those within each other the outermost alone."""

    def __init__(self, instance: object) -> None:
        #: the instance without them; what is not on the way to one is shared
        self.rest = instance
        #: how many there are for each reason that there is
        self.count: dict[ExtraFieldReason, int] = {}
        self._kept: list[tuple[Path, ExtraFieldReason]] = []

    def add(self, path: Path, reason: ExtraFieldReason) -> None:
        """Count one more; the first ones for each reason are kept."""
        self.count[reason] = self.count.get(reason, 0) + 1
        if self.count[reason] <= _MOST_LISTED:
            self._kept.append((path, reason))

    @property
    def reason(self) -> ExtraFieldReason | None:
        """The reason for all of them together; None where there are none."""
        if not self.count:
            return None
        return ExtraFieldReason.UNNAMED if ExtraFieldReason.UNNAMED in self.count else ExtraFieldReason.MISPLACED

    def first(self, reason: ExtraFieldReason) -> list[Path]:
        """The first ones for that reason."""
        return [path for path, own in self._kept if own is reason]

    def listed(self, reason: ExtraFieldReason | None = None) -> tuple[str, ...]:
        """The first of all as JSON paths, or those of them for one reason."""
        if not self._kept:
            return ()
        return tuple(json_path(path) for path, own in self._kept[:_MOST_LISTED] if reason in {None, own})


class FieldNames:
    """The names that one schema gives to fields."""

    def __init__(self, schema: bool | dict[str, Any], dialect: Dialect) -> None:
        self._schema = schema
        self.references = References({} if isinstance(schema, bool) else schema, dialect)
        self._survey = Survey(self.references)

    @cached_property
    def _names(self) -> frozenset[str]:
        return all_names(self.references.schemas)

    @cached_property
    def _spellings(self) -> dict[str, str]:
        return by_spelling(self._names)

    def extra_fields(self, instance: object, ignored: Collection[str] = ()) -> ExtraFields:
        """The fields of the instance that it does not name where they stand."""
        found = ExtraFields(instance)
        if isinstance(instance, (dict, list)):
            try:
                found.rest = self._look(self._schema, instance, (), found, frozenset(ignored))
            except RecursionError:
                # a chain of references too long to follow is one that cannot be resolved: never flagged
                return ExtraFields(instance)
        return found

    def _look(self, schema: object, value: Any, path: Path, found: ExtraFields, ignored: frozenset[str]) -> Any:
        """Find the extra fields of an object or in an array, and below it; what is left of it without them."""
        extra: set[str] = set()
        steps: Iterable[tuple[str | int, object]]
        if isinstance(value, dict):
            if extra := self._survey.fields(schema).unnamed(value):
                extra.difference_update(ignored, () if path else (_POINTER_TO_SCHEMA,))
            steps = value.items()
        else:
            steps = enumerate(value)
        changed: dict[str | int, object] = {}
        for step, child in steps:
            if step in extra:
                found.add((*path, step), self._reason(step))
            elif child and isinstance(child, (dict, list)):
                below = self._below(schema, step)
                # where no schema speaks, none names a field
                if isinstance(below, dict):
                    rest = self._look(below, child, (*path, step), found, ignored)
                    if rest is not child:
                        changed[step] = rest
        if not (extra or changed):
            return value
        if isinstance(value, list):
            return [changed.get(index, child) for index, child in enumerate(value)]
        return {key: changed.get(key, child) for key, child in value.items() if key not in extra}

    def _below(self, schema: object, step: str | int) -> object:
        return self._survey.below(schema, min(step, self.references.longest_tuple) if isinstance(step, int) else step)

    def _reason(self, name: object) -> ExtraFieldReason:
        return ExtraFieldReason.MISPLACED if name in self._names else ExtraFieldReason.UNNAMED

    def meant(self, path: Path) -> str | None:
        """The name, there or else anywhere, that the extra field's differs from by white space or case alone."""
        schema: object = self._schema
        for step in path[:-1]:
            schema = self._below(schema, step)
        spelt = spelling(str(path[-1]))
        here = by_spelling(self._survey.fields(schema).names).get(spelt)
        return here or (None if path[-1] in self._names else self._spellings.get(spelt))
