"""
Documents: those of one folder, read from inside of it, and a schema as one document with what it refers to.

What a schema refers to in other documents is copied into its `$defs`.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable, decode, parse_json, real
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.base import as_schema
from pytest_jsbench.datasets.folders import files_below
from pytest_jsbench.schemas.dialects import DRAFT_2020_12, find_dialect
from pytest_jsbench.schemas.keywords import DATA, NAMED
from pytest_jsbench.schemas.references import joined, pointer_of

#: bytes of one schema; the largest of JSONSchemaBench has 938,058
LARGEST_SCHEMA = 10_000_000
#: bytes of a document that holds many, such as an API's description
LARGEST_DOCUMENT = 100_000_000
YAML_SUFFIXES = (".yaml", ".yml")
DOCUMENT_SUFFIXES = (".json", *YAML_SUFFIXES)
#: parsed documents that stay in memory, for the cases that share one
_KEPT = 4
#: a document by its URI; None where whoever judges must know it; Unreadable where it is not to be had
Retrieve = Callable[[str], object]

_UNNAMED = re.compile(r"[^\w.-]+")
_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
#: objects and arrays of a schema with all that it refers to
_MOST_PARTS = 1_000_000
#: what a schema inside another may not keep once all references are pointers from the root
_NAMES = ("$id", "id", "$anchor")
_OLD = ("draft-04", "draft-06", "draft-07")
#: a resource of no schema, beside all that schemas refer to
_ELSEWHERE = "urn:jsbench:elsewhere"


class DocumentFolder:
    """Reads the documents of a folder; a link that leads out of it is not followed."""

    def __init__(self, root: Path, files: Iterable[Path]) -> None:
        self.root = root
        self._real = real(root)
        self.reader = FileReader(root=root, longest_line=LARGEST_SCHEMA)
        self._files = files
        #: what a file holds, parsed, and kept for the next who asks
        self.document = lru_cache(maxsize=_KEPT)(self._parse)

    @classmethod
    def whole(cls, root: Path) -> DocumentFolder:
        """The folder with all of its documents; DatasetError where it is none."""
        root = root.expanduser()
        if not root.is_dir():
            raise DatasetError(f"no folder of schemas at {root}", found=str(root), expected="a folder")
        return cls(root, (path for path in sorted(files_below(root)) if path.suffix.lower() in DOCUMENT_SUFFIXES))

    def data(self, path: Path, *, largest: int = LARGEST_SCHEMA) -> bytes:
        """Read a file; Unreadable where it lies outside, is no file, or holds too much."""
        return replace(self.reader, largest=largest).read_bytes(path)

    def holds(self, path: Path) -> bool:
        """Tell whether the file is there."""
        return self._place(path).exists()

    def schema(self, path: Path) -> Schema:
        """The schema that a file holds, with what it refers to in other files of the folder brought into it."""
        document = _parse(self.data(path), path=path, largest=LARGEST_SCHEMA)
        return complete(as_schema(document), self.retrieve, uri=self.uri(path))

    def uri(self, path: Path) -> str:
        """The URI from which references of a document start: the file's own place."""
        return self._place(path).as_uri()

    def _place(self, path: Path) -> Path:
        return self._real / path.relative_to(self.root)

    def retrieve(self, uri: str) -> object:
        """
        The document that a reference names: a file of the folder by its place, or one by the URI it gives itself.

        None for a URI that is no file's, which may be a published metaschema's. Unreadable where the place is outside
        of the folder, or empty.
        """
        parts = urlsplit(uri)
        path = real(Path(url2pathname(parts.path))) if parts.scheme == "file" and not parts.netloc else None
        if path is not None and path.is_relative_to(self._real) and path.is_file():
            return self.document(path)
        if (named := self._by_uri.get(uri)) is not None:
            return self.document(named)
        if parts.scheme != "file":
            return None
        if path is None or not path.is_relative_to(self._real):
            message = f"is outside of {self.root}; only what lies inside is read"
            raise Unreadable(message, reason="unresolvable_reference")
        raise Unreadable(f"is not there; expected a file in {self.root}", reason="unresolvable_reference")

    @cached_property
    def _by_uri(self) -> dict[str, Path]:
        """The files that were found in the folder, by the URI that each gives itself."""
        paths: dict[str, Path] = {}
        for path in self._files:
            try:
                document = self._parse(path)
            except Unreadable:
                continue
            if isinstance(document, dict):
                for keyword in ("$id", "id"):
                    if isinstance(name := document.get(keyword), str):
                        paths.setdefault(joined(self.uri(path), name).partition("#")[0], path)
        return paths

    def _parse(self, path: Path) -> object:
        return _parse(self.data(path, largest=LARGEST_DOCUMENT), path=path, largest=LARGEST_DOCUMENT)


def complete(schema: Schema, retrieve: Retrieve, *, uri: str = "") -> Schema:
    """The schema with what it refers to elsewhere; Unreadable where that is there, and cannot be read."""
    if not leaves(schema):
        return schema
    bundled: Schema = bundle(SchemaPlace(document=schema, uri=uri, schema=schema), retrieve)
    return bundled


def _parse(data: bytes, *, path: PurePath, largest: int) -> object:
    """The JSON value that a file holds, by the suffix of its name; Unreadable says what else was found, and where."""
    if path.suffix.lower() not in YAML_SUFFIXES:
        return parse_json(data, largest=largest)
    from pytest_jsbench.datasets.yaml_text import parse_yaml

    return parse_yaml(decode(data), largest=largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlace:
    """The place of a schema: a document, its URI, and the schema itself, which is the document or inside it."""

    document: object
    uri: str
    schema: Any
    #: whether the document is no schema itself, such as an API's description
    opaque: bool = False


def leaves(schema: object) -> bool:
    """Tell whether something that may be a reference points to another document, or to a name."""
    return any(
        isinstance(reference := part.get("$ref"), str) and not reference.startswith("#") for part in _objects(schema)
    )


def bundle(place: SchemaPlace, retrieve: Retrieve) -> Any:
    """
    The schema with everything that it refers to, itself where it refers to nothing outside of it.

    References become pointers from the root, so that every engine can follow them. What cannot be found stays as it
    is: the judge knows the published metaschemas, and calls the rest unresolvable.
    """
    try:
        return _Bundle(place, retrieve).schema()
    except RecursionError:
        raise Unreadable("nested too deeply to be put together with what it refers to", reason="too_deep") from None


class _Bundle:
    def __init__(self, place: SchemaPlace, retrieve: Retrieve, foreign: dict[str, Any] | None = None) -> None:
        import referencing.jsonschema

        self._root = place.schema
        self._opaque = place.opaque
        self._dialect = _dialect(place.document) or _dialect(place.schema)
        spec = referencing.jsonschema.specification_with(
            self._dialect or "", default=referencing.jsonschema.DRAFT202012
        )
        self._spec = spec
        self._others = referencing.Specification.OPAQUE if place.opaque else spec
        self._retrieve = retrieve
        self._refused: dict[str, Unreadable] = {}
        first = self._others.create_resource(place.document)
        elsewhere = referencing.Specification.OPAQUE.create_resource({})
        resources = [(_ELSEWHERE, elsewhere), (place.uri, first)]
        registry = referencing.Registry(retrieve=self._resource).with_resources(resources)  # type: ignore[call-arg]
        self._resolver = registry.resolver(place.uri)
        if not place.opaque:
            self._resolver = self._inside(place.document, self._resolver)
        self._own = {id(part): path for part, path in _paths(place.schema)}
        self._container = "definitions" if any(old in (self._dialect or "") for old in _OLD) else "$defs"
        self._taken = set(_mapping(_mapping(place.schema).get(self._container)))
        #: identity of what was brought in to its name; what has an identity is kept alive beside it
        self._brought: dict[object, tuple[str, Any]] = {}
        #: documents of other dialects by their URIs, brought in whole and referred to by these
        self._foreign: dict[str, Any] = {} if foreign is None else foreign
        self._is_inner = foreign is not None
        #: where references led, by what they name in full: to look one up takes a millisecond
        self._led: dict[str, tuple[Any, Any] | None] = {}
        self._parts = 0
        self._pending: deque[tuple[str, Any, Any]] = deque()

    def schema(self) -> Any:
        if _is_dynamic(self._root):
            return self._root
        rewritten = self._rewrite(self._root, self._resolver, top=True)
        definitions = {}
        while self._pending:
            name, contents, resolver = self._pending.popleft()
            definitions[name] = self._rewrite(contents, resolver, top=True)
            for keyword in (*_NAMES, "$schema"):
                if isinstance(_mapping(definitions[name]).get(keyword), str):
                    del definitions[name][keyword]
        brought: dict[str, Any] = {}
        while not self._is_inner and (uri := next(iter(self._foreign.keys() - brought.keys()), None)) is not None:
            place = SchemaPlace(document=self._foreign[uri], uri=uri, schema=self._foreign[uri])
            brought[uri] = whole = _Bundle(place, self._retrieve, self._foreign).schema()
            definitions[self._free_name(uri)] = {**whole, "id" if "draft-04" in whole["$schema"] else "$id": uri}
        if not definitions and not self._opaque:
            return self._root
        if definitions:
            if not isinstance(rewritten, dict):
                raise Unreadable("is a list with references, and no schema", reason="not_a_schema")
            rewritten[self._container] = {**_mapping(rewritten.get(self._container)), **definitions}
        return rewritten

    def _resource(self, uri: str) -> Any:
        import referencing
        import referencing.exceptions

        try:
            document = self._retrieve(uri)
        except Unreadable as error:
            self._refused[uri] = error
            document = None
        if document is None:
            raise referencing.exceptions.NoSuchResource(uri)
        dialect = _dialect(document)
        if dialect and dialect != self._dialect and not (self._dialect is None and "2020-12" in dialect):
            self._foreign[uri] = document
            return referencing.Specification.OPAQUE.create_resource(document)
        return (self._spec if dialect else self._others).create_resource(document)

    def _inside(self, schema: Any, resolver: Any) -> Any:
        """The resolver that holds inside the schema, which may have a URI of its own."""
        named = any(isinstance(_mapping(schema).get(name), str) for name in ("$id", "id"))
        return resolver.in_subresource(self._spec.create_resource(schema)) if named else resolver

    def _rewrite(self, value: Any, resolver: Any, *, top: bool = False, foreign: bool = False) -> Any:
        if isinstance(value, list):
            return [self._rewrite(element, resolver, foreign=foreign) for element in value]
        if not isinstance(value, dict):
            return value
        self._parts += 1
        if self._parts > _MOST_PARTS:
            message = f"holds more than {_MOST_PARTS:,} objects together with what it refers to"
            raise Unreadable(message, reason="too_large")
        if not top:
            resolver = self._inside(value, resolver)
        copy: dict[str, Any] = {}
        for keyword, part in value.items():
            if keyword == "$ref" and isinstance(part, str):
                copy[keyword] = self._pointer(part, resolver, foreign=foreign)
            elif keyword in DATA:
                copy[keyword] = part
            elif keyword in NAMED and isinstance(part, dict):
                copy[keyword] = {name: self._rewrite(inner, resolver, foreign=foreign) for name, inner in part.items()}
            elif top or keyword not in _NAMES or not isinstance(part, str):
                copy[keyword] = self._rewrite(part, resolver, foreign=foreign or keyword.startswith("x-"))
        return copy

    def _pointer(self, reference: str, resolver: Any, *, foreign: bool) -> str:
        """The reference as a pointer from the root; as it is where it leads nowhere, and that is the judge's to say."""
        target = self._find(reference, resolver)
        full = joined(_base_of(resolver), reference) if target else ""
        if full.partition("#")[0] in self._foreign:
            return full
        if target is None and self._opaque and reference.startswith("#") and not foreign:
            # the judge does not see the document that the reference is about
            message = f"refers to {printable(reference, 200)!r}, which is not there, or is no schema to be taken out"
            raise Unreadable(message, reason="unresolvable_reference")
        if target is None:
            return reference
        contents, resolver = target
        if (path := self._own.get(id(contents))) is not None and isinstance(contents, dict):
            return "#" + quote(pointer_of(path).encode("utf-8", "surrogatepass"), safe="/~$@:+;,!*'()=&-._")
        identity = contents if isinstance(contents, bool) else id(contents)
        if identity not in self._brought:
            name = self._free_name(reference)
            self._brought[identity] = (name, contents)
            self._pending.append((name, contents, resolver))
        return f"#/{self._container}/{self._brought[identity][0]}"

    def _find(self, reference: str, resolver: Any) -> tuple[Any, Any] | None:
        """Find the schema that the reference leads to, and the resolver that holds there."""
        full = joined(_base_of(resolver), reference)
        if full not in self._led:
            contents, resolver = self._lead(reference, resolver)
            is_schema = isinstance(contents, bool) or (
                isinstance(contents, dict) and (id(contents) in self._own or not _is_dynamic(contents))
            )
            self._led[full] = (contents, resolver) if is_schema else None
        return self._led[full]

    def _lead(self, reference: str, resolver: Any) -> tuple[Any, Any]:
        import referencing.exceptions

        whole, _, fragment = reference.partition("#")
        self._refused.clear()
        try:
            if whole:
                resolved = resolver.lookup(whole)
                resolver = self._inside(resolved.contents, resolved.resolver)
                if not fragment:
                    return resolved.contents, resolver
            resolved = resolver.lookup(f"#{fragment}")
        except (referencing.exceptions.Unresolvable, AttributeError, LookupError, TypeError, ValueError):
            for error in self._refused.values():
                message = f"refers to {printable(reference, 200)!r}, which {error.problem}"
                raise Unreadable(message, reason="unresolvable_reference") from None
            return None, resolver
        return resolved.contents, resolved.resolver

    def _free_name(self, reference: str) -> str:
        path, _, fragment = reference.partition("#")
        last = fragment.rpartition("/")[2] or path.rstrip("/").rpartition("/")[2].partition(".")[0]
        name = wanted = _UNNAMED.sub("_", last)[:60] or "schema"
        number = 2
        while name in self._taken:
            name, number = f"{wanted}.{number}", number + 1
        self._taken.add(name)
        return name


def _is_dynamic(schema: object) -> bool:
    """Tell whether it holds what depends on the way that led to it, which a pointer cannot say."""
    return any(not _DYNAMIC.isdisjoint(part) for part in _objects(schema))


def _base_of(resolver: Any) -> str:
    """The URI from which the resolver resolves: the one that is left, and so last in scope, on the way elsewhere."""
    return next((uri for uri, _ in resolver.lookup(_ELSEWHERE).resolver.dynamic_scope()), "")


def _dialect(document: object) -> str | None:
    uri = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(uri, str):
        return None
    # OpenAPI's dialects are 2020-12 under other names
    return DRAFT_2020_12.uri if find_dialect(uri) is DRAFT_2020_12 else uri.rstrip("#")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[dict[str, Any]]:
    """Every object in the value, once; twice as fast as with the ways to them, and asked of every file."""
    pending, seen = [value], set()
    while pending:
        part = pending.pop()
        if isinstance(part, dict | list) and id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, dict):
                yield part
            pending += part.values() if isinstance(part, dict) else part


def _paths(value: object) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Every object and array of the value, once, with the way to it."""
    pending: list[tuple[object, tuple[str, ...]]] = [(value, ())]
    seen: set[int] = set()
    while pending:
        part, path = pending.pop()
        if isinstance(part, dict | list) and id(part) not in seen:
            seen.add(id(part))
            yield part, path
            inner = part.items() if isinstance(part, dict) else enumerate(part)
            pending += [(child, (*path, str(key))) for key, child in inner]
