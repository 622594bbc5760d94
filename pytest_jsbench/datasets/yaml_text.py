"""
Parse YAML text to a JSON value. Values are built from the parser's events, so that tags create no objects, and depth
and aliases are limited.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from typing import Any

from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import LARGEST, Unreadable, finite
from pytest_jsbench.core.text import printable

#: Maximum nesting depth of mappings and sequences.
DEEPEST = 500
#: Maximum number of values, with each alias counted as all values that it refers to.
MOST_VALUES = 2_000_000

_TAG = "tag:yaml.org,2002:"
#: Scalars of YAML 1.2's core schema, in which `no` and `2020-01-01` are strings.
_INTEGER = re.compile(r"[-+]?[0-9]{1,4000}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: value for name, value in (("true", True), ("false", False)) for word in (name, name.title(), name.upper())
}
_NO_KEY = object()

_Size = tuple[int, int]


def require_yaml(what: str) -> None:
    """Raise DatasetError with the command that installs PyYAML, if it is not installed."""
    if importlib.util.find_spec("yaml") is None:
        raise DatasetError(f"{what} is YAML and needs the package PyYAML: pip install 'pytest-jsbench[yaml]'")


def parse_yaml(text: str, *, largest: int = LARGEST) -> object:
    """Parse a text with one document to a JSON value; raise Unreadable with the line if it is invalid."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(largest).build(yaml.parse(text, Loader=loader))
    except yaml.YAMLError as error:
        raise Unreadable(f"not YAML: {' '.join(str(error).split())}") from None


class _Builder:
    """Builder of a value from events; containers that are not closed yet are on a stack."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._open: list[Any] = []
        #: For each open container, the key whose value comes next.
        self._keys: list[Any] = []
        #: For each open container, the number of values and characters in it; the container itself counts as a value.
        self._sizes: list[_Size] = []
        self._names: list[str | None] = []
        self._anchors: dict[str, tuple[Any, _Size]] = {}
        self._documents: list[Any] = []

    def build(self, events: Iterator[Any]) -> object:
        import yaml

        for event in events:
            match event:
                case yaml.ScalarEvent():
                    self._add(event, self._parse_scalar(event), (1, len(event.value)), anchor=event.anchor)
                case yaml.AliasEvent():
                    self._check_not_key(event)
                    if event.anchor not in self._anchors:
                        name = printable(str(event.anchor), 60)
                        raise _invalid(event, f"the alias *{name} is used before, or inside of, its anchor")
                    self._add(event, *self._anchors[event.anchor])
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    self._open_container(event, [] if isinstance(event, yaml.SequenceStartEvent) else {})
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    value = self._open.pop()
                    size = self._sizes.pop()
                    self._keys.pop()
                    self._add(event, value, size, anchor=self._names.pop())
                case yaml.DocumentStartEvent() if self._documents:
                    raise _invalid(event, "a second document begins; expected one")
        if not self._documents:
            raise Unreadable("not YAML: an empty file")
        return self._documents[0]

    def _open_container(self, event: Any, container: Any) -> None:
        if event.tag not in {None, "!", f"{_TAG}map", f"{_TAG}seq"}:
            raise _invalid(event, f"the tag {printable(event.tag, 60)} has no JSON equivalent")
        if len(self._open) >= DEEPEST:
            raise _invalid(event, f"nested more than {DEEPEST} levels deep", reason="too_deep")
        self._check_not_key(event)
        self._open.append(container)
        self._keys.append(_NO_KEY)
        self._sizes.append((1, 2))
        self._names.append(event.anchor)

    def _check_not_key(self, event: Any) -> None:
        if self._open and isinstance(self._open[-1], dict) and self._keys[-1] is _NO_KEY:
            raise _invalid(event, "a key that is not text")

    def _parse_scalar(self, event: Any) -> object:
        if self._open and isinstance(self._open[-1], dict) and self._keys[-1] is _NO_KEY:
            return event.value
        if event.tag in {"!", f"{_TAG}str"}:
            return event.value
        if event.tag is not None:
            raise _invalid(event, f"the tag {printable(event.tag, 60)} has no JSON equivalent")
        plain = event.implicit[0]  # not quoted
        try:
            return _parse_plain(event.value) if plain else event.value
        except ValueError as error:
            raise _invalid(event, str(error)) from None

    def _add(self, event: Any, value: Any, size: _Size, *, anchor: str | None = None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self._documents.append(value)
            return
        values = self._sizes[-1][0] + size[0]
        characters = self._sizes[-1][1] + size[1]
        if values > MOST_VALUES:
            message = f"more than {MOST_VALUES:,} values, with aliases expanded"
            raise _invalid(event, message, reason="too_large")
        if characters > self._largest:
            message = f"more than {self._largest:,} characters, with aliases expanded"
            raise _invalid(event, message, reason="too_large")
        self._sizes[-1] = values, characters
        container = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        elif self._keys[-1] is _NO_KEY:
            if value in container:
                raise _invalid(event, f"a mapping has the key {printable(value, 60)!r} twice")
            if value == "<<":
                raise _invalid(event, "the merge key << has no JSON equivalent")
            self._keys[-1] = value
        else:
            container[self._keys[-1]] = value
            self._keys[-1] = _NO_KEY


def _parse_plain(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return finite(text) if _FLOAT.fullmatch(text) else text


def _invalid(event: Any, problem: str, *, reason: str = "not_json") -> Unreadable:
    return Unreadable(f"line {event.start_mark.line + 1}: {problem}", reason=reason)
