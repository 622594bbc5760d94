"""
Read the operations of an OpenAPI document as tools.

The arguments are one flat object, as FastMCP makes it of an operation: the parameters and the properties of the body,
by name. A parameter whose name is taken gets its location as a suffix: `id__path`. A body that is not a plain object is
one argument, `body`. Properties that only responses have are left out.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.core.json_values import as_mapping
from pytest_jsbench.core.text import json_text, printable
from pytest_jsbench.datasets.documents import Retrieve, SchemaPlace, bundle
from pytest_jsbench.datasets.sources import openapi
from pytest_jsbench.schemas.keywords import rebuild
from pytest_jsbench.schemas.references import follow

#: Characters that providers reject in the name of a tool, and the maximum length of a name.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 64
_BODY = "body"
#: Headers that OpenAPI does not describe as parameters; a client sets them.
_OWN_HEADERS = frozenset({"accept", "authorization", "content-type"})
#: Keywords of a body whose properties can be arguments next to parameters, without a change of what is valid.
_PLAIN = frozenset(
    {"type", "properties", "required", "additionalProperties", "title", "description", "example", "examples",
     "deprecated"}
)  # fmt: skip
_REFERENCE = "#/$defs/"


def read_tools(document: Mapping[str, Any], *, uri: str, retrieve: Retrieve) -> list[dict[str, Any]]:
    """Return a definition for each operation; raise Unreadable if the version or a reference is not supported."""
    version = openapi.check(document)
    names = Counter[str]()
    definitions = []
    for place, name, operation in openapi.find_operations(document, sections=("paths",)):
        arguments = _bundle_arguments(document, place, operation, uri=uri, retrieve=retrieve)
        if version == "3.0":
            arguments = openapi.convert(arguments, unused="readOnly")
        *path, method = place
        default = f"{method.upper()} {path[-1]}"
        definitions.append(
            {
                "name": _unused_name(name, names),
                "description": next((text for text in _texts_of(operation) if text), default),
                "parameters": rebuild(_flatten(arguments), _drop_read_only),
            }
        )
    return definitions


def _texts_of(operation: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts that can describe an operation, the best first."""
    for field in ("description", "summary"):
        text = operation.get(field)
        if isinstance(text, str):
            yield text.strip()


def _unused_name(name: str, names: Counter[str]) -> str:
    """Return a name that every provider accepts; a repeated name gets a number."""
    short = _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME]
    names[short] += 1
    if names[short] == 1:
        return short
    ending = f"_{names[short]}"
    return f"{short[: _LONGEST_NAME - len(ending)]}{ending}"


def _bundle_arguments(
    document: Mapping[str, Any],
    place: Sequence[str],
    operation: Mapping[str, Any],
    *,
    uri: str,
    retrieve: Retrieve,
) -> dict[str, Any]:
    """
    Return the self-contained schema of an operation's arguments: each parameter as `LOCATION NAME`, and `body`.

    The body is an argument of its own until its references are resolved, since a reference to its schema would
    otherwise become a reference to the whole object.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    for key, parameter in _find_parameters(document, place, operation).items():
        properties[key] = _schema_of_parameter(parameter)
        if parameter.get("required") is True or parameter["in"] == "path":
            required.append(key)
    body, _ = openapi.find_object(document, operation.get("requestBody"), ())
    schema = _schema_of_content(body)
    if schema is not None:
        properties[_BODY] = schema
        if body.get("required") is True:
            required.append(_BODY)
    arguments = {"type": "object", "properties": properties, "required": required}
    place_of_arguments = SchemaPlace(document=document, uri=uri, schema=arguments, opaque=True)
    bundled: dict[str, Any] = bundle(place_of_arguments, retrieve)
    return bundled


def _find_parameters(
    document: Mapping[str, Any], place: Sequence[str], operation: Mapping[str, Any]
) -> dict[str, Mapping[str, Any]]:
    """Return the parameters by location and name; an operation's parameter replaces that of its path."""
    parameters: dict[str, Mapping[str, Any]] = {}
    for holder in (follow(document, place[:-1]), operation):
        listed = as_mapping(holder).get("parameters")
        for value in listed if isinstance(listed, list) else ():
            parameter, _ = openapi.find_object(document, value, ())
            name = parameter.get("name")
            location = parameter.get("in")
            if not isinstance(name, str) or not isinstance(location, str):
                shown = printable(json_text(value), 100)
                message = f"{place[-1].upper()} {place[-2]} has the parameter {shown}, which has no name or place here"
                raise Unreadable(message, reason="unresolvable_reference")
            if location != "header" or name.lower() not in _OWN_HEADERS:
                parameters[f"{location} {name}"] = parameter
    return parameters


def _schema_of_parameter(parameter: Mapping[str, Any]) -> Any:
    """Return the schema of a parameter, with the parameter's description."""
    schema = parameter["schema"] if "schema" in parameter else _schema_of_content(parameter)
    description = parameter.get("description")
    if schema is None:
        schema = {}
    if isinstance(schema, Mapping) and "description" not in schema and isinstance(description, str):
        return {**schema, "description": description}
    return schema


def _schema_of_content(holder: Mapping[str, Any]) -> Any:
    """Return the schema of a body or parameter, that of JSON if there is one; None without a schema."""
    contents = {
        media: content
        for media, content in as_mapping(holder.get("content")).items()
        if isinstance(content, Mapping) and "schema" in content
    }
    chosen = next((media for media in contents if openapi.JSON_MEDIA.fullmatch(media)), next(iter(contents), None))
    return None if chosen is None else contents[chosen]["schema"]


def _flatten(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments as one object: parameters by their own names, and the properties of a plain body."""
    definitions = dict(as_mapping(arguments.get("$defs")))
    properties: dict[str, Any] = dict(arguments["properties"])
    required: list[str] = list(arguments.get("required", ()))
    body = _plain_body(properties.pop(_BODY), definitions) if _BODY in properties else {}
    fields = as_mapping(body.get("properties"))
    counts = Counter(key.partition(" ")[2] for key in properties)
    names: dict[str, str] = {}
    for key in properties:
        location, _, name = key.partition(" ")
        is_taken = name in fields or counts[name] > 1
        names[key] = f"{name}__{location}" if is_taken else name
    flat: dict[str, Any] = {
        "type": "object",
        "properties": {**{names[key]: schema for key, schema in properties.items()}, **fields},
    }
    all_required = [names[key] for key in required if key in names]
    if _BODY in required:
        all_required += body.get("required", ())
    if all_required:
        flat["required"] = all_required
    if "additionalProperties" in body:
        flat["additionalProperties"] = body["additionalProperties"]
    kept = _used_definitions(flat, definitions)
    if kept:
        flat["$defs"] = kept
    return flat


def _plain_body(body: Any, definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a body if it is a plain object; otherwise that of an object with the body as argument."""
    schema = as_mapping(body)
    for _ in definitions:
        if schema.keys() != {"$ref"}:
            break
        schema = as_mapping(definitions.get(str(schema["$ref"]).removeprefix(_REFERENCE)))
    is_object = schema.get("type", "object") == "object" and isinstance(schema.get("properties"), Mapping)
    if is_object and schema.keys() <= _PLAIN:
        return schema
    return {"properties": {_BODY: body}, "required": [_BODY]}


def _drop_read_only(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove the properties that only responses have."""
    properties = as_mapping(schema.get("properties"))
    dropped = {name for name, part in properties.items() if as_mapping(part).get("readOnly") is True}
    if not dropped:
        return schema
    kept = {name: part for name, part in properties.items() if name not in dropped}
    required = [name for name in schema.get("required", ()) if name not in dropped]
    others = {keyword: value for keyword, value in schema.items() if keyword != "required"}
    return {**others, "properties": kept, **({"required": required} if required else {})}


def _used_definitions(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions that a schema refers to, directly or through other definitions."""
    used: dict[str, Any] = {}
    pending: list[Any] = [schema]
    while pending:
        text = json.dumps(pending.pop())
        for name, definition in definitions.items():
            if name not in used and json.dumps(f"{_REFERENCE}{name}") in text:
                used[name] = definition
                pending.append(definition)
    return {name: definition for name, definition in definitions.items() if name in used}
