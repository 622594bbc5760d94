"""Fields of an instance that its schema does not name: here, or anywhere."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pytest_jsbench.schemas.references import References
from pytest_jsbench.verdicts.field_names import Survey, all_names, by_spelling, spelling

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pytest_jsbench.schemas.dialects import Dialect
    from pytest_jsbench.schemas.locations import Path

#: places remembered from one instance to the next; free-form names and deep recursion make ever new ones
_MOST_PLACES = 4096
#: what an editor reads at the root of any JSON file: the schema's URI, and no field of the answer
_POINTER_TO_SCHEMA = "$schema"


class ExtraFieldReason(StrEnum):
    """Why an answer's extra fields are not named."""

    #: each is the name of a field elsewhere in the schema
    MISPLACED = "misplaced"
    #: of one at least the schema has no such name anywhere
    UNNAMED = "unnamed"


class FieldNames:
    """The names that one schema gives to fields."""

    def __init__(self, schema: bool | dict[str, Any], dialect: Dialect) -> None:
        self._schema = schema
        self._document = {} if isinstance(schema, bool) else schema
        self._references = References(self._document, dialect)
        self._survey = Survey(self._references)

    @cached_property
    def _names(self) -> frozenset[str]:
        return all_names(self._document)

    @cached_property
    def _spellings(self) -> dict[str, str]:
        return by_spelling(self._names)

    def extra_fields(self, instance: object, ignored: Collection[str] = ()) -> list[Path]:
        """The paths of the fields that it does not name where they stand: outermost only, in the instance's order."""
        if len(self._survey.places) > _MOST_PLACES:
            self._survey = Survey(self._references)
        try:
            return list(self._walk(self._schema, instance, (), self._survey, ignored))
        except RecursionError:
            # a chain of references too long to follow is one that cannot be resolved: never flagged
            return []

    def _walk(
        self, schema: object, value: object, path: Path, survey: Survey, ignored: Collection[str]
    ) -> Iterator[Path]:
        steps: Iterator[tuple[str | int, object]]
        extra: set[str] = set()
        if isinstance(value, dict):
            extra = set(survey.fields(schema).unnamed(value)).difference(ignored, () if path else (_POINTER_TO_SCHEMA,))
            steps = iter(value.items())
        elif isinstance(value, list):
            steps = iter(enumerate(value))
        else:
            return
        for step, child in steps:
            if step in extra:
                yield (*path, step)
            elif child and isinstance(child, (dict, list)):
                yield from self._walk(self._below(schema, step, survey), child, (*path, step), survey, ignored)

    def _below(self, schema: object, step: str | int, survey: Survey) -> object:
        return survey.below(schema, min(step, self._references.longest_tuple) if isinstance(step, int) else step)

    def misplaced(self, path: Path) -> bool:
        """Whether a field elsewhere in the schema has the name of that extra field."""
        return path[-1] in self._names

    def meant(self, path: Path) -> str | None:
        """The name, there or else anywhere, that the extra field's differs from by white space or case alone."""
        schema: object = self._schema
        for step in path[:-1]:
            schema = self._below(schema, step, self._survey)
        spelt = spelling(str(path[-1]))
        here = by_spelling(self._survey.fields(schema).names).get(spelt)
        return here or (None if self.misplaced(path) else self._spellings.get(spelt))


def without(instance: Any, paths: Collection[Path]) -> Any:
    """A copy of the instance without the fields at those paths; what is not on the way to one is shared."""
    here = {path[0] for path in paths if len(path) == 1}
    deeper: dict[str | int, list[Path]] = {}
    for path in paths:
        if len(path) > 1:
            deeper.setdefault(path[0], []).append(path[1:])
    if isinstance(instance, list):
        return [without(v, deeper[i]) if i in deeper else v for i, v in enumerate(instance)]
    return {
        key: without(value, deeper[key]) if key in deeper else value
        for key, value in instance.items()
        if key not in here
    }
