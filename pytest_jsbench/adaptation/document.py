"""A schema as it is read: its dialect, its places and where its references lead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pytest_jsbench.schemas import keywords
from pytest_jsbench.schemas.keywords import KEYWORDS
from pytest_jsbench.schemas.walking import DATA, NAMED

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str, ...]

#: keywords that say nothing about validity; so do all that JSON Schema does not know
#: what a schema in the wild calls a format; any other name asserts nothing
FORMATS = frozenset({*keywords.FORMATS, "color", "host-name", "ip-address"})
_DRAFTS = {"draft-03": 3, "draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPart:
    """A subschema with the place that it stands at in the original."""

    schema: Any
    path: Path

    def below(self, *tokens: str) -> SchemaPart:
        """The part that the tokens lead to."""
        value = self.schema
        for token in tokens:
            value = value[int(token)] if isinstance(value, list) else value[token]
        return SchemaPart(schema=value, path=self.path + tokens)


class SchemaDocument:
    """The whole original."""

    def __init__(self, root: Any) -> None:
        self.root = root
        declared = str(root.get("$schema", "")) if isinstance(root, Mapping) else ""
        self.draft = next((number for name, number in _DRAFTS.items() if name in declared), 2020)
        #: whether what stands beside `$ref` is not read
        self.lone_references = self.draft <= 7
        self._anchors: dict[str, list[Path]] | None = None
        #: what is known already of its parts: by place, identity, and how deep was looked
        self.outlines: dict[tuple[Path, int, int], tuple[SchemaPart, Outline]] = {}

    def only_refers(self, schema: Any) -> bool:
        """Whether the schema says nothing but `$ref`."""
        if not isinstance(schema, Mapping) or "$ref" not in schema:
            return False
        return self.lone_references or not (schema.keys() - {"$ref"}) & KEYWORDS

    def resolve(self, part: SchemaPart, reference: object) -> SchemaPart | None:
        """The part that the reference leads to; None where that is not certain, or outside of the document."""
        if not isinstance(reference, str) or self._identified(part.path):
            return None
        uri, _, fragment = reference.partition("#")
        if uri and uri != self._identifier().partition("#")[0]:
            return None
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            found = self._anchored(fragment)
            if len(found) != 1:
                return None
            path = found[0]
        else:
            path = tuple(token.replace("~1", "/").replace("~0", "~") for token in fragment.split("/")[1:])
        if self._identified(path):
            return None
        try:
            target = SchemaPart(schema=self.root, path=()).below(*path)
        except (KeyError, IndexError, TypeError, ValueError):
            return None
        return target if isinstance(target.schema, Mapping | bool) else None

    def _identifier(self) -> str:
        return str(self.root.get("$id", self.root.get("id", "")))

    def _identified(self, path: Path) -> bool:
        """Whether a schema below the root, on the way there, is a resource of its own, with other references."""
        value = self.root
        for token in path:
            try:
                value = value[int(token)] if isinstance(value, list) else value[token]
            except (KeyError, IndexError, TypeError, ValueError):
                return False
            for keyword in ("$id", "id"):
                name = value.get(keyword) if isinstance(value, Mapping) else None
                if isinstance(name, str) and not name.startswith("#"):
                    return True
        return False

    def _anchored(self, name: str) -> list[Path]:
        if self._anchors is None:
            self._anchors = {}
            for path, schema in _places(self.root, ()):
                names = [schema.get("$anchor"), schema.get("$dynamicAnchor")]
                for keyword in ("$id", "id"):
                    identifier = schema.get(keyword)
                    names += [identifier[1:]] if isinstance(identifier, str) and identifier.startswith("#") else []
                for anchor in names:
                    if isinstance(anchor, str):
                        self._anchors.setdefault(anchor, []).append(path)
        return self._anchors.get(name, [])


def _places(value: Any, path: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """All that may be a schema, with its path."""
    if isinstance(value, list):
        for number, member in enumerate(value):
            yield from _places(member, (*path, str(number)))
    if not isinstance(value, Mapping):
        return
    yield path, value
    for keyword, member in value.items():
        if keyword in NAMED and isinstance(member, Mapping):
            for name, subschema in member.items():
                yield from _places(subschema, (*path, keyword, name))
        elif keyword not in DATA:
            yield from _places(member, (*path, keyword))


def pointer(path: Path) -> str:
    """The path as a JSON pointer."""
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """What holds for every instance of a schema; more may."""

    #: None for any; integers are numbers here
    kinds: frozenset[str] | None = None
    #: all values it can have, in canonical form; None where they are not few
    values: frozenset[str] | None = None
    #: of an object
    required: frozenset[str] = frozenset()
    #: the values of some properties of an object, where they are few
    tags: Mapping[str, frozenset[str]] = field(default_factory=dict)
