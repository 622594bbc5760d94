"""The documents of one folder: read from inside of it, and from nowhere else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path, PurePath
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

from pytest_jsbench.core.cases import Schema
from pytest_jsbench.core.errors import DatasetError
from pytest_jsbench.core.files import FileReader, Unreadable, decode, parse_json, real
from pytest_jsbench.datasets.base import as_schema
from pytest_jsbench.datasets.documents.bundling import Retrieve, SchemaPlace, bundle, leaves

#: bytes of one schema; the largest of JSONSchemaBench has 938,058
LARGEST_SCHEMA = 10_000_000
#: bytes of a document that holds many, such as an API's description
LARGEST_DOCUMENT = 100_000_000
YAML_SUFFIXES = (".yaml", ".yml")
DOCUMENT_SUFFIXES = (".json", *YAML_SUFFIXES)
#: parsed documents that stay in memory, for the cases that share one
_KEPT = 4


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
        return cls(root, (path for path in sorted(root.rglob("*")) if path.suffix.lower() in DOCUMENT_SUFFIXES))

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
        found: dict[str, Path] = {}
        for path in self._files:
            try:
                document = self._parse(path)
            except Unreadable:
                continue
            if isinstance(document, dict):
                for keyword in ("$id", "id"):
                    if isinstance(name := document.get(keyword), str):
                        found.setdefault(_join(self.uri(path), name), path)
        return found

    def _parse(self, path: Path) -> object:
        return _parse(self.data(path, largest=LARGEST_DOCUMENT), path=path, largest=LARGEST_DOCUMENT)


def complete(schema: Schema, retrieve: Retrieve, *, uri: str = "") -> Schema:
    """The schema with what it refers to elsewhere; Unreadable where that is there, and cannot be read."""
    if not leaves(schema):
        return schema
    bundled: Schema = bundle(SchemaPlace(document=schema, uri=uri, schema=schema), retrieve)
    return bundled


def _join(base: str, uri: str) -> str:
    try:
        return urljoin(base, uri).partition("#")[0]
    except ValueError:  # such as "Invalid IPv6 URL"
        return uri


def _parse(data: bytes, *, path: PurePath, largest: int) -> object:
    """The JSON value that a file holds, by the suffix of its name; Unreadable says what else was found, and where."""
    if path.suffix.lower() not in YAML_SUFFIXES:
        return parse_json(data, largest=largest)
    from pytest_jsbench.datasets.documents.yaml_text import parse_yaml

    return parse_yaml(decode(data), largest=largest)
