"""Find the sources of schemas in a project: Pydantic models, schema files, OpenAPI documents, tool definitions."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword
from pathlib import Path

from pytest_jsbench.core.cases import Case
from pytest_jsbench.core.errors import JSBenchError
from pytest_jsbench.core.files import FileReader, inside, parse_json
from pytest_jsbench.core.text import describe_error, format_count, printable
from pytest_jsbench.datasets.base import Selection
from pytest_jsbench.datasets.folders import has_tool_schemas
from pytest_jsbench.datasets.registry import BUNDLED, open_dataset

#: Directories that are not searched, since they contain no schemas that the application uses.
_SKIPPED_FOLDERS = {"venv", "build", "dist", "docs", "tests"}
_MOST_FILES = 5_000
_LARGEST = 2_000_000
_YAML = (".yaml", ".yml")
_API = "OpenAPI document"
#: Substring of the names of FastAPI's error models; the first test is not written for such a model.
_FASTAPI_MODELS = "ValidationError"
_REFERENCE = re.compile(r"[^/#]+(?=#?$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source of schemas in a project, and the parts of a first test for one of its schemas."""

    dataset: str
    words: str
    cases: int
    #: First lines of the test file: imports and constants; empty if no test file is written for the source.
    imports: str = ""
    #: Python expression for the schema in the test.
    schema: str = ""
    #: Name of the case, from which the name of the test function is made.
    test: str = ""
    #: Type of each field, such as `str` or `integer`, for the sample text in the test.
    fields: Mapping[str, str] = field(default_factory=dict)
    #: Extra of pytest-jsbench that must be installed to read the source; None if no extra is required.
    extra: str | None = None
    #: Directory from which the source's Python module is imported; None for other sources.
    python_path: str | None = None


def find_sources(root: Path) -> tuple[list[Source], list[str]]:
    """
    Find the sources of schemas in a project; also return a message for each file that cannot be read.

    Python modules are parsed, not imported.
    """
    sources: list[Source] = []
    unreadable: list[str] = []
    folders: dict[Path, dict[Path, str]] = {}
    for path in _files(root):
        try:
            content = _read(root, path)
            models = list(_models(root, path, content)) if isinstance(content, ast.Module) else []
        except SyntaxError as error:
            fault = f"{error.msg} (line {error.lineno})"
        except (RecursionError, MemoryError):  # raised by the parser or the search, mostly for generated code
            fault = "nested too deeply"
        except (JSBenchError, OSError, ValueError) as error:
            fault = str(error) if isinstance(error, JSBenchError) else describe_error(error)
        else:
            if isinstance(content, ast.Module):
                sources += models
            elif (kind := _kind(content)) == _API:
                sources += _find_source(root, path, f"an {kind}")
            elif kind is not None:
                folders.setdefault(path.parent, {})[path] = kind
            continue
        unreadable.append(f"{printable(path.relative_to(root).as_posix(), 200)} cannot be read: {fault}")
    for folder, kinds in folders.items():
        if len(kinds) > 1 and folder != root:
            kinds = {folder: "schemas and tools in a directory"}
        for place, kind in kinds.items():
            sources += _find_source(root, place, kind)
    return sources, unreadable


def _files(root: Path) -> Iterator[Path]:
    """Yield the files of the project that may contain schemas, in the order of their names."""
    count = 0
    for folder, inner, names in os.walk(root):
        inner[:] = sorted(
            name for name in inner if name not in _SKIPPED_FOLDERS and not has_tool_schemas(Path(folder) / name)
        )
        for name in sorted(names):
            path = Path(folder) / name
            # skip broken links, and links that lead out of the project
            is_source = path.suffix in {".py", ".json", *_YAML} and path.is_file() and inside(root, path)
            if is_source and path.stat().st_size <= _LARGEST:
                count += 1
                if count > _MOST_FILES:
                    return
                yield path


def _read(root: Path, path: Path) -> object:
    """Return the syntax tree of a Python module, or the content of a JSON or YAML document."""
    reader = FileReader(root=root, largest=_LARGEST)
    if path.suffix == ".py":
        return ast.parse(reader.read_bytes(path))
    if path.suffix == ".json":
        return parse_json(reader.read_bytes(path))
    from pytest_jsbench.datasets.yaml_text import parse_yaml, require_yaml

    require_yaml("it")
    return parse_yaml(reader.read_text(path))


def _kind(document: object) -> str | None:
    """Return the kind of a document by its outermost keys; None if it has no schemas."""
    from pytest_jsbench.datasets.sources.openapi import is_openapi
    from pytest_jsbench.datasets.sources.tools import defines_tools

    if is_openapi(document):
        return _API
    if defines_tools(document):
        return "tool definitions"
    named = isinstance(document, Mapping) and "json-schema.org" in str(document.get("$schema"))
    shaped = isinstance(document, Mapping) and document.keys() >= {"type", "properties"}
    return "a schema file" if named or shaped else None


def _find_source(root: Path, path: Path, words: str) -> Iterator[Source]:
    """
    Yield the source at a path, if the path can be read as a dataset; the first test is for the schema that
    refers to most other schemas.
    """
    place = path.relative_to(root).as_posix()
    try:
        dataset = open_dataset(Selection(source=str(path)))
        cases = [case for key in dataset.keys() if isinstance(case := dataset.case(key), Case)]
    except JSBenchError:
        return
    if cases:
        own = [case for case in cases if _FASTAPI_MODELS not in case.key.id] or cases
        top = own[_find_root([case.key.id for case in own], [_references(case.schema) for case in own])]
        yield Source(
            # without the leading ./, this path would be read as the name of a bundled dataset, as ~ or as an option
            dataset=f"./{place}" if place in BUNDLED or place.startswith(("~", "-")) else place,
            words=f"{words}, {format_count(len(cases), 'schema')}",
            cases=len(cases),
            imports=f"from pathlib import Path\n\nimport pytest\n\nfrom pytest_jsbench import Dataset\n\n"
            f"CASES = Dataset.load(Path(__file__).resolve().parents[1] / {place!r})",
            schema=f"CASES[{str(top.key)!r}].schema",
            test=top.key.id,
            fields=_types(top.schema),
            extra="yaml" if any(file.suffix in _YAML for file in (path, *path.rglob("*"))) else None,
        )


def _references(schema: object) -> set[str]:
    """Return the last part of each `$ref` in a schema, which may be the name of another case."""
    names: set[str] = set()
    pending = [schema]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            reference = _REFERENCE.search(value["$ref"]) if isinstance(value.get("$ref"), str) else None
            names |= {reference[0], reference[0].split(".")[0]} if reference else set()
            # references inside unused definitions do not count
            pending += [each for name, each in value.items() if name not in ("$defs", "definitions", "components")]
        elif isinstance(value, list):
            pending += value
    return names


def _types(schema: object) -> dict[str, str]:
    """Return the type of each property whose schema has a single type name."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return {}
    types = {name: each.get("type") for name, each in properties.items() if isinstance(each, Mapping)}
    return {name: kind for name, kind in types.items() if isinstance(kind, str)}


def _find_root(names: Sequence[str], references: Sequence[set[str]]) -> int:
    """Return the index of the name from which most names are reachable, among names to which no other name refers."""
    graph = {name: each & {*names} - {name} for name, each in zip(names, references, strict=True)}
    parts = set[str]().union(*graph.values())
    reached = {name: len(_reachable(graph, name)) for name in graph}
    roots = [name for name in names if name not in parts] or list(names)
    return names.index(max(roots, key=lambda name: reached[name]))


def _reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return the names to which `start` refers, directly or through other names."""
    reached: set[str] = set()
    pending = [start]
    while pending:
        new = graph[pending.pop()] - reached
        reached |= new
        pending += new
    return reached - {start}


def _models(root: Path, path: Path, tree: ast.Module) -> Iterator[Source]:
    """Yield the Pydantic models in a module's syntax tree, as one source."""
    models: dict[str, ast.ClassDef] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases}
            if "BaseModel" in bases or bases & models.keys():
                models[node.name] = node
    parts = [*path.relative_to(root).with_suffix("").parts]
    module = ".".join(part for n, part in enumerate(parts) if part != "__init__" and (n, part) != (0, "src"))
    # a module whose path is not a valid import name is skipped
    if models and all(part.isidentifier() and not iskeyword(part) for part in module.split(".")):
        names = list(models)
        top = names[_find_root(names, [_names_in(node) for node in models.values()])]
        yield Source(
            dataset=f"{module}:*",
            words=format_count(len(models), "Pydantic model"),
            cases=len(models),
            imports=f"import pytest\n\nfrom {module} import {top}",
            schema=top,
            test=top,
            fields=_annotations(models[top]),
            extra="pydantic",
            python_path="src" if parts[0] == "src" else ".",
        )


def _names_in(model: ast.ClassDef) -> set[str]:
    """Return the names in a model's bases and annotations, including annotations written as strings."""
    annotations = [node.annotation for node in model.body if isinstance(node, ast.AnnAssign)]
    names: set[str] = set()
    for part in (*model.bases, *annotations):
        for node in ast.walk(part):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                names |= {*re.findall(r"\w+", node.value)}
    return names


def _annotations(model: ast.ClassDef) -> dict[str, str]:
    """Return the annotation of each field whose annotation is a single name."""
    return {
        node.target.id: node.annotation.id
        for node in model.body
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and isinstance(node.annotation, ast.Name)
    }
