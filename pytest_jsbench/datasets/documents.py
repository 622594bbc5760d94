"""
Read the documents of a directory, and combine a schema with the documents that it refers to.

The referenced schemas are copied into the `$defs` of the schema. Files outside of the directory are never read.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable, decode, parse_json, real
from pytest_jsbench.core.json_values import as_mapping, compact_text
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.base import as_schema
from pytest_jsbench.datasets.folders import files_below
from pytest_jsbench.schemas.dialects import DRAFT_2020_12, find_dialect
from pytest_jsbench.schemas.keywords import DATA, NAMED
from pytest_jsbench.schemas.references import join_uris, pointer_of

#: Maximum size of a schema in bytes; the largest schema of JSONSchemaBench has 938,058.
LARGEST_SCHEMA = 10_000_000
#: Maximum size in bytes of a document with many schemas, such as an API description.
LARGEST_DOCUMENT = 100_000_000
YAML_SUFFIXES = (".yaml", ".yml")
DOCUMENT_SUFFIXES = (".json", *YAML_SUFFIXES)
#: Number of parsed documents to keep in memory, since several cases may refer to the same document.
_KEPT = 4
#: Function that returns the document with a URI, or None to leave the URI to the validator; it raises Unreadable if the
#: document cannot be read.
Retrieve = Callable[[str], object]

_UNNAMED = re.compile(r"[^\w.-]+")
_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
#: Maximum number of JSON objects in a schema, including the schemas that it refers to.
_MOST_PARTS = 1_000_000
#: Keywords to remove from a nested schema once all references are pointers from the root.
_NAMES = ("$id", "id", "$anchor")
_OLD = ("draft-04", "draft-06", "draft-07")
#: URI of an empty document, from which `_base_of` looks up the current base URI.
_ELSEWHERE = "urn:jsbench:elsewhere"


class DocumentFolder:
    """Reader of the documents in a directory; it does not follow links to places outside of it."""

    def __init__(self, root: Path, files: Iterable[Path]) -> None:
        self.root = root
        self._real = real(root)
        self.reader = FileReader(root=root, longest_line=LARGEST_SCHEMA)
        self._files = files
        #: Function that returns the parsed contents of a file, from a cache if possible.
        self.document = lru_cache(maxsize=_KEPT)(self.parse)

    @classmethod
    def whole(cls, root: Path) -> DocumentFolder:
        """Return a reader for all documents of a directory; raise DatasetError if it is not a directory."""
        root = root.expanduser()
        if not root.is_dir():
            raise DatasetError(f"{root} is not a directory of schemas", found=str(root), expected="a directory")
        return cls(root, (path for path in sorted(files_below(root)) if path.suffix.lower() in DOCUMENT_SUFFIXES))

    def data(self, path: Path, *, largest: int = LARGEST_SCHEMA) -> bytes:
        """Read a file; raise Unreadable if it is outside of the directory, not a file, or too large."""
        return replace(self.reader, largest=largest).read_bytes(path)

    def exists(self, path: Path) -> bool:
        """Return whether the file exists."""
        return self._place(path).exists()

    def schema(self, path: Path) -> Schema:
        """Return the schema in a file, with the schemas that it refers to in other files of the directory."""
        schema = as_schema(_parse(self.data(path), path=path, largest=LARGEST_SCHEMA))
        return complete(schema, self.retrieve, uri=self.uri(path)) if has_outside_references(schema) else schema

    def uri(self, path: Path) -> str:
        """Return the base URI for the references in a document, which is the URI of its file."""
        return self._place(path).as_uri()

    def _place(self, path: Path) -> Path:
        return self._real / path.relative_to(self.root)

    def retrieve(self, uri: str) -> object:
        """
        Return the document with this URI: the file at the URI's path, or the file that declares this `$id`.

        Return None for other URIs, such as those of published metaschemas. Raise Unreadable if the path is outside of
        the directory or does not exist.
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
            message = f"is outside of {self.root}; only files inside of it are read"
            raise Unreadable(message, reason="unresolvable_reference")
        raise Unreadable(f"does not exist; expected a file in {self.root}", reason="unresolvable_reference")

    @cached_property
    def _by_uri(self) -> dict[str, Path]:
        """Files of the directory by the URI that they declare as `$id` or `id`."""
        paths: dict[str, Path] = {}
        for path in self._files:
            try:
                document = self.parse(path)
            except Unreadable:
                continue
            if isinstance(document, dict):
                for keyword in ("$id", "id"):
                    if isinstance(name := document.get(keyword), str):
                        paths.setdefault(join_uris(self.uri(path), name).partition("#")[0], path)
        return paths

    def parse(self, path: Path) -> object:
        """Return the parsed contents of a file, which `document` caches."""
        return _parse(self.data(path, largest=LARGEST_DOCUMENT), path=path, largest=LARGEST_DOCUMENT)


def complete(schema: Schema, retrieve: Retrieve, *, uri: str = "") -> Schema:
    """
    Copy all schemas of other documents that the schema refers to into the schema, and return the result.

    Raise Unreadable if a document cannot be read.
    """
    if not has_outside_references(schema):
        return schema
    bundled: Schema = bundle(SchemaPlace(document=schema, uri=uri, schema=schema), retrieve)
    return bundled


def _parse(data: bytes, *, path: PurePath, largest: int) -> object:
    """Parse a file as YAML or JSON, by its suffix; raise Unreadable with the place of an error."""
    if path.suffix.lower() not in YAML_SUFFIXES:
        return parse_json(data, largest=largest)
    from pytest_jsbench.datasets.yaml_text import parse_yaml

    return parse_yaml(decode(data), largest=largest)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlace:
    """Schema with the document that contains it, which may be the schema itself, and the document's URI."""

    document: object
    uri: str
    schema: Any
    #: True if the document is not itself a schema, such as an API description.
    opaque: bool = False


def has_outside_references(schema: object) -> bool:
    """Return whether a reference in the schema is not a pointer or an anchor in the same document."""
    text = compact_text(schema)
    if text is not None:
        # quotation marks inside of texts are escaped
        return text.count(b'"$ref":"') > text.count(b'"$ref":"#')
    return any(
        isinstance(reference := part.get("$ref"), str) and not reference.startswith("#") for part in _objects(schema)
    )


def bundle(place: SchemaPlace, retrieve: Retrieve) -> Any:
    """
    Copy all schemas of other documents that the schema refers to into the schema, and return the result.

    References become pointers from the root, so that every engine can follow them. References that cannot be resolved
    stay unchanged: the judge knows the published metaschemas, and reports all other such references as unresolvable.
    """
    try:
        return _Bundle(place, retrieve).schema()
    except RecursionError:
        message = "nested too deeply to be combined with the documents that it refers to"
        raise Unreadable(message, reason="too_deep") from None


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
        self._errors: dict[str, Unreadable] = {}
        first = self._others.create_resource(place.document)
        elsewhere = referencing.Specification.OPAQUE.create_resource({})
        resources = [(_ELSEWHERE, elsewhere), (place.uri, first)]
        registry = referencing.Registry(retrieve=self._retrieve_resource).with_resources(resources)  # type: ignore[call-arg]
        self._resolver = registry.resolver(place.uri)
        if not place.opaque:
            self._resolver = self._resolver_inside(place.document, self._resolver)
        self._own = {id(part): path for part, path in _paths(place.schema)}
        self._container = "definitions" if any(old in (self._dialect or "") for old in _OLD) else "$defs"
        self._taken = set(as_mapping(as_mapping(place.schema).get(self._container)))
        #: Name and contents of each copied schema by its id(). The contents are kept, so that the id() stays unique.
        self._copied: dict[object, tuple[str, Any]] = {}
        #: Documents of other dialects by URI. They are copied as a whole, and references to them keep their URI.
        self._foreign: dict[str, Any] = {} if foreign is None else foreign
        self._is_inner = foreign is not None
        #: Cache of reference targets by full URI, because a lookup takes a millisecond.
        self._targets: dict[str, tuple[Any, Any] | None] = {}
        self._parts = 0
        self._pending: deque[tuple[str, Any, Any]] = deque()

    def schema(self) -> Any:
        if _is_dynamic(self._root):
            return self._root
        rewritten = self._rewrite(self._root, self._resolver, top=True)
        definitions: dict[str, Any] = {}
        while self._pending:
            name, contents, resolver = self._pending.popleft()
            definitions[name] = self._rewrite(contents, resolver, top=True)
            for keyword in (*_NAMES, "$schema"):
                if isinstance(as_mapping(definitions[name]).get(keyword), str):
                    del definitions[name][keyword]
        if not self._is_inner:
            definitions |= self._foreign_definitions()
        if not definitions and not self._opaque:
            return self._root
        if definitions:
            if not isinstance(rewritten, dict):
                raise Unreadable("is a list with references, not a schema", reason="not_a_schema")
            rewritten[self._container] = {**as_mapping(rewritten.get(self._container)), **definitions}
        return rewritten

    def _foreign_definitions(self) -> dict[str, Any]:
        definitions: dict[str, Any] = {}
        bundled: set[str] = set()
        while unbundled := self._foreign.keys() - bundled:
            uri = next(iter(unbundled))
            bundled.add(uri)
            place = SchemaPlace(document=self._foreign[uri], uri=uri, schema=self._foreign[uri])
            # bundling a document may add other documents to `_foreign`
            whole = _Bundle(place, self._retrieve, self._foreign).schema()
            identifier = "id" if "draft-04" in whole["$schema"] else "$id"
            definitions[self._reserve_name(uri)] = {**whole, identifier: uri}
        return definitions

    def _retrieve_resource(self, uri: str) -> Any:
        import referencing
        import referencing.exceptions

        try:
            document = self._retrieve(uri)
        except Unreadable as error:
            self._errors[uri] = error
            document = None
        if document is None:
            raise referencing.exceptions.NoSuchResource(uri)
        dialect = _dialect(document)
        if dialect and dialect != self._dialect and not (self._dialect is None and "2020-12" in dialect):
            self._foreign[uri] = document
            return referencing.Specification.OPAQUE.create_resource(document)
        return (self._spec if dialect else self._others).create_resource(document)

    def _resolver_inside(self, schema: Any, resolver: Any) -> Any:
        """Return the resolver for references inside a schema, which may declare its own base URI."""
        named = any(isinstance(as_mapping(schema).get(name), str) for name in ("$id", "id"))
        return resolver.in_subresource(self._spec.create_resource(schema)) if named else resolver

    def _rewrite(self, value: Any, resolver: Any, *, top: bool = False, foreign: bool = False) -> Any:
        if isinstance(value, list):
            return [self._rewrite(element, resolver, foreign=foreign) for element in value]
        if not isinstance(value, dict):
            return value
        self._parts += 1
        if self._parts > _MOST_PARTS:
            message = f"contains more than {_MOST_PARTS:,} objects, including the documents that it refers to"
            raise Unreadable(message, reason="too_large")
        if not top:
            resolver = self._resolver_inside(value, resolver)
        copy: dict[str, Any] = {}
        for keyword, part in value.items():
            if keyword == "$ref" and isinstance(part, str):
                copy[keyword] = self._rewrite_reference(part, resolver, foreign=foreign)
            elif keyword in DATA:
                copy[keyword] = part
            elif keyword in NAMED and isinstance(part, dict):
                copy[keyword] = {name: self._rewrite(inner, resolver, foreign=foreign) for name, inner in part.items()}
            elif top or keyword not in _NAMES or not isinstance(part, str):
                copy[keyword] = self._rewrite(part, resolver, foreign=foreign or keyword.startswith("x-"))
        return copy

    def _rewrite_reference(self, reference: str, resolver: Any, *, foreign: bool) -> str:
        """Return the reference as a pointer from the root; unchanged if it cannot be resolved here."""
        target = self._resolve(reference, resolver)
        full = join_uris(_base_of(resolver), reference) if target else ""
        if full.partition("#")[0] in self._foreign:
            return full
        if target is None and self._opaque and reference.startswith("#") and not foreign:
            # report the reference here, since the judge sees only the schema, and not the whole document
            message = f"refers to {printable(reference, 200)!r}, which does not exist or is not a self-contained schema"
            raise Unreadable(message, reason="unresolvable_reference")
        if target is None:
            return reference
        contents, resolver = target
        if (path := self._own.get(id(contents))) is not None and isinstance(contents, dict):
            return "#" + quote(pointer_of(path).encode("utf-8", "surrogatepass"), safe="/~$@:+;,!*'()=&-._")
        identity = contents if isinstance(contents, bool) else id(contents)
        if identity not in self._copied:
            name = self._reserve_name(reference)
            self._copied[identity] = (name, contents)
            self._pending.append((name, contents, resolver))
        return f"#/{self._container}/{self._copied[identity][0]}"

    def _resolve(self, reference: str, resolver: Any) -> tuple[Any, Any] | None:
        """Return the target of the reference, with the resolver for references inside of the target."""
        full = join_uris(_base_of(resolver), reference)
        if full not in self._targets:
            contents, resolver = self._look_up(reference, resolver)
            is_schema = isinstance(contents, bool) or (
                isinstance(contents, dict) and (id(contents) in self._own or not _is_dynamic(contents))
            )
            self._targets[full] = (contents, resolver) if is_schema else None
        return self._targets[full]

    def _look_up(self, reference: str, resolver: Any) -> tuple[Any, Any]:
        import referencing.exceptions

        whole, _, fragment = reference.partition("#")
        self._errors.clear()
        try:
            if whole:
                resolved = resolver.lookup(whole)
                resolver = self._resolver_inside(resolved.contents, resolved.resolver)
                if not fragment:
                    return resolved.contents, resolver
            resolved = resolver.lookup(f"#{fragment}")
        except (referencing.exceptions.Unresolvable, AttributeError, LookupError, TypeError, ValueError):
            for error in self._errors.values():
                message = f"refers to {printable(reference, 200)!r}, which {error.problem}"
                raise Unreadable(message, reason="unresolvable_reference") from None
            return None, resolver
        return resolved.contents, resolved.resolver

    def _reserve_name(self, reference: str) -> str:
        path, _, fragment = reference.partition("#")
        last = fragment.rpartition("/")[2] or path.rstrip("/").rpartition("/")[2].partition(".")[0]
        wanted = _UNNAMED.sub("_", last)[:60] or "schema"
        name = wanted
        number = 2
        while name in self._taken:
            name = f"{wanted}.{number}"
            number += 1
        self._taken.add(name)
        return name


def _is_dynamic(schema: object) -> bool:
    """Return whether the schema contains dynamic references, which a pointer cannot express."""
    return any(not _DYNAMIC.isdisjoint(part) for part in _objects(schema))


def _base_of(resolver: Any) -> str:
    """Return the current base URI of a resolver, which has no public attribute for it."""
    return next((uri for uri, _ in resolver.lookup(_ELSEWHERE).resolver.dynamic_scope()), "")


def _dialect(document: object) -> str | None:
    uri = document.get("$schema") if isinstance(document, dict) else None
    if not isinstance(uri, str):
        return None
    # OpenAPI's dialects are draft 2020-12 with other URIs
    return DRAFT_2020_12.uri if find_dialect(uri) is DRAFT_2020_12 else uri.rstrip("#")


def _objects(value: object) -> Iterator[dict[str, Any]]:
    """
    Yield each object in the value once.

    This is faster than `_paths`, and is called for every file.
    """
    pending = [value]
    seen = set()
    while pending:
        part = pending.pop()
        if isinstance(part, dict | list) and id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, dict):
                yield part
            pending += part.values() if isinstance(part, dict) else part


def _paths(value: object) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield each object and array in the value once, with its path."""
    pending: list[tuple[object, tuple[str, ...]]] = [(value, ())]
    seen: set[int] = set()
    while pending:
        part, path = pending.pop()
        if isinstance(part, dict | list) and id(part) not in seen:
            seen.add(id(part))
            yield part, path
            inner = part.items() if isinstance(part, dict) else enumerate(part)
            pending += [(child, (*path, str(key))) for key, child in inner]
