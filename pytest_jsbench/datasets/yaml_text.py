"""YAML text to a JSON value: of its events, so that no tag makes an object and no depth or alias runs away."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from typing import Any

from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import LARGEST, Unreadable, finite
from pytest_jsbench.core.text import printable

#: mappings and sequences within each other
DEEPEST = 500
#: values, with each alias counted as all that it stands for
MOST_VALUES = 2_000_000

_TAG = "tag:yaml.org,2002:"
#: the core schema of YAML 1.2, in which `no` is a string and `2020-01-01` too
_INTEGER = re.compile(r"[-+]?[0-9]{1,4000}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: value for name, value in (("true", True), ("false", False)) for word in (name, name.title(), name.upper())
}
_NO_KEY = object()

_Size = tuple[int, int]


def require_yaml(what: str) -> None:
    """DatasetError where YAML cannot be read, with the command that installs what reads it."""
    if importlib.util.find_spec("yaml") is None:
        raise DatasetError(f"{what} is YAML and needs the package PyYAML: pip install 'pytest-jsbench[yaml]'")


def parse_yaml(text: str, *, largest: int = LARGEST) -> object:
    """The JSON value of the only document in the text; Unreadable says what else was found, and in which line."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(largest).build(yaml.parse(text, Loader=loader))
    except yaml.YAMLError as error:
        raise Unreadable(f"not YAML: {' '.join(str(error).split())}") from None


class _Builder:
    """Puts values together as events come; containers that are still open stand on a stack."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._open: list[Any] = []
        #: the key that waits for its value, for each open container
        self._keys: list[Any] = []
        #: values below each open container, itself included, and characters of them
        self._sizes: list[_Size] = []
        self._names: list[str | None] = []
        self._anchors: dict[str, tuple[Any, _Size]] = {}
        self._found: list[Any] = []

    def build(self, events: Iterator[Any]) -> object:
        import yaml

        for event in events:
            match event:
                case yaml.ScalarEvent():
                    self._add(event, self._scalar(event), (1, len(event.value)), anchor=event.anchor)
                case yaml.AliasEvent():
                    self._refuse_as_key(event)
                    if event.anchor not in self._anchors:
                        name = printable(str(event.anchor), 60)
                        raise _refused(event, f"*{name} stands before, or inside, what it stands for")
                    self._add(event, *self._anchors[event.anchor])
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    self._enter(event, [] if isinstance(event, yaml.SequenceStartEvent) else {})
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    value, size = self._open.pop(), self._sizes.pop()
                    self._keys.pop()
                    self._add(event, value, size, anchor=self._names.pop())
                case yaml.DocumentStartEvent() if self._found:
                    raise _refused(event, "a second document begins; expected one")
        if not self._found:
            raise Unreadable("not YAML: an empty file")
        return self._found[0]

    def _enter(self, event: Any, container: Any) -> None:
        if event.tag not in {None, "!", f"{_TAG}map", f"{_TAG}seq"}:
            raise _refused(event, f"the tag {printable(event.tag, 60)} is no JSON")
        if len(self._open) >= DEEPEST:
            raise _refused(event, f"nested more than {DEEPEST} levels deep", reason="too_deep")
        self._refuse_as_key(event)
        self._open.append(container)
        self._keys.append(_NO_KEY)
        self._sizes.append((1, 2))
        self._names.append(event.anchor)

    def _refuse_as_key(self, event: Any) -> None:
        if self._open and isinstance(self._open[-1], dict) and self._keys[-1] is _NO_KEY:
            raise _refused(event, "a key that is no text")

    def _scalar(self, event: Any) -> object:
        if self._open and isinstance(self._open[-1], dict) and self._keys[-1] is _NO_KEY:
            return event.value
        if event.tag in {"!", f"{_TAG}str"}:
            return event.value
        if event.tag is not None:
            raise _refused(event, f"the tag {printable(event.tag, 60)} is no JSON")
        plain = event.implicit[0]  # and not in quotes
        try:
            return _plain(event.value) if plain else event.value
        except ValueError as error:
            raise _refused(event, str(error)) from None

    def _add(self, event: Any, value: Any, size: _Size, *, anchor: str | None = None) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        if not self._open:
            self._found.append(value)
            return
        values, characters = self._sizes[-1][0] + size[0], self._sizes[-1][1] + size[1]
        if values > MOST_VALUES:
            raise _refused(event, f"more than {MOST_VALUES:,} values, aliases written out", reason="too_large")
        if characters > self._largest:
            raise _refused(event, f"more than {self._largest:,} characters, aliases written out", reason="too_large")
        self._sizes[-1] = values, characters
        container = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        elif self._keys[-1] is _NO_KEY:
            if value in container:
                raise _refused(event, f"a mapping has the key {printable(value, 60)!r} twice")
            if value == "<<":
                raise _refused(event, "the merge key << is no JSON")
            self._keys[-1] = value
        else:
            container[self._keys[-1]] = value
            self._keys[-1] = _NO_KEY


def _plain(text: str) -> object:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return finite(text) if _FLOAT.fullmatch(text) else text


def _refused(event: Any, problem: str, *, reason: str = "not_json") -> Unreadable:
    return Unreadable(f"line {event.start_mark.line + 1}: {problem}", reason=reason)
