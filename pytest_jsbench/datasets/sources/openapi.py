"""Read OpenAPI documents: the schemas of their components, and of JSON request and response bodies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeGuard
from urllib.parse import unquote

from pytest_jsbench.core.files import Unreadable
from pytest_jsbench.core.json_values import as_mapping
from pytest_jsbench.core.text import printable
from pytest_jsbench.datasets.documents import Retrieve, SchemaPlace, bundle
from pytest_jsbench.schemas.keywords import rebuild
from pytest_jsbench.schemas.references import follow, tokens_of

#: Dialect of a schema that declares no dialect.
_DEFAULT = "https://json-schema.org/draft/2020-12/schema"
#: Prefix of the default dialect of OpenAPI documents: draft 2020-12 with additional annotation keywords.
_OPENAPI_DIALECT = "https://spec.openapis.org/oas/3."
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
#: Media types of JSON.
JSON_MEDIA = re.compile(r"\s*(?:application/json|[\w.+-]+/[\w.+-]+\+json)\s*(?:;.*)?", re.IGNORECASE)
_NOT_A_NAME = re.compile(r"[^\w.-]+")
#: Maximum length of a chain of references.
_MOST_HOPS = 100
_MISSING = object()


class Group(StrEnum):
    """Group of schemas in an OpenAPI document; each group is a task."""

    SCHEMAS = "schemas"
    REQUESTS = "requests"
    RESPONSES = "responses"


#: Flag that marks properties as not required in requests or in responses, before OpenAPI 3.1.
_UNUSED = {Group.REQUESTS: "readOnly", Group.RESPONSES: "writeOnly"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSchema:
    """Schema in an OpenAPI document, with its name and its path from the root."""

    group: Group
    name: str
    steps: tuple[str, ...]


def is_openapi(document: object) -> bool:
    """Return whether this is an OpenAPI document of any version, which would accept every value as a schema."""
    return (
        isinstance(document, Mapping)
        and any(isinstance(document.get(key), str | float | int) for key in ("openapi", "swagger"))
        and any(isinstance(document.get(part), Mapping) for part in ("info", "paths", "components", "definitions"))
    )


def api_schemas(document: Mapping[str, Any]) -> Iterator[ApiSchema]:
    """
    Yield the schemas of the document in order: components, then request and response bodies.

    If several bodies in a task only refer to the same component, they are one case, named after the first operation.
    """
    for name in as_mapping(follow(document, ("components", "schemas"))):
        yield ApiSchema(group=Group.SCHEMAS, name=name, steps=("components", "schemas", name))
    seen: set[tuple[Group, str]] = set()
    for api, schema in sorted(_find_all_bodies(document), key=lambda body: body[0].group is Group.RESPONSES):
        reference = schema.get("$ref") if isinstance(schema, Mapping) and len(schema) == 1 else None
        if isinstance(reference, str):
            if (api.group, reference) in seen:
                continue
            seen.add((api.group, reference))
        yield api


def read_openapi_schema(document: object, api: ApiSchema, *, uri: str, retrieve: Retrieve) -> Any:
    """Read a schema of the document as plain, self-contained JSON Schema."""
    version = check(document)
    schema = follow(document, api.steps, _MISSING)
    if schema is _MISSING:
        raise Unreadable("has changed since it was first read")
    place = SchemaPlace(document=document, uri=uri, schema=schema, opaque=True)
    whole = bundle(_follow_reference(place), retrieve)
    if version == "3.0":
        whole = convert(whole, unused=_UNUSED.get(api.group))
    dialect = as_mapping(document).get("jsonSchemaDialect")
    if isinstance(whole, dict) and isinstance(dialect, str) and not dialect.startswith((_OPENAPI_DIALECT, _DEFAULT)):
        return {"$schema": dialect, **whole}
    return whole


def check(document: object) -> str:
    """Return the version of the document, such as `3.1`; raise Unreadable if it is not supported."""
    declared = str(as_mapping(document).get("openapi") or as_mapping(document).get("swagger"))
    version = ".".join(declared.split(".")[:2])
    if version.startswith("3."):
        return version
    message = f"has version {printable(declared, 40)}; expected an OpenAPI document of version 3.0 or later"
    raise Unreadable(message, reason="not_a_schema")


def _follow_reference(place: SchemaPlace) -> SchemaPlace:
    """
    Return the place of the component if a schema is only a reference, so that the result does not
    begin with a `$ref`.
    """
    for _ in range(_MOST_HOPS):
        reference = place.schema.get("$ref") if isinstance(place.schema, Mapping) and len(place.schema) == 1 else None
        target = follow(place.document, _tokens(reference)) if _is_local(reference) else None
        if not isinstance(target, Mapping):
            break
        place = replace(place, schema=target)
    return place


def _find_all_bodies(document: Mapping[str, Any]) -> Iterator[tuple[ApiSchema, object]]:
    for steps, name, operation in find_operations(document):
        body, place = find_object(document, operation.get("requestBody"), (*steps, "requestBody"))
        yield from _find_bodies(body, place, Group.REQUESTS, name)
        for status, response in as_mapping(operation.get("responses")).items():
            body, place = find_object(document, response, (*steps, "responses", status))
            yield from _find_bodies(body, place, Group.RESPONSES, f"{name}.{status}")


def find_operations(
    document: Mapping[str, Any], *, sections: Sequence[str] = ("paths", "webhooks")
) -> Iterator[tuple[tuple[str, ...], str, Mapping[str, Any]]]:
    """Yield the path, the name and the content of each operation in these sections."""
    for section in sections:
        for path, value in as_mapping(document.get(section)).items():
            item, place = find_object(document, value, (section, path))
            for method, operation in item.items():
                if method in _METHODS and isinstance(operation, Mapping):
                    name = operation.get("operationId")
                    if not isinstance(name, str) or not name:
                        name = f"{method}_{_NOT_A_NAME.sub('_', path).strip('_')}".strip("_")
                    yield (*place, method), name, operation


def _find_bodies(
    body: Mapping[str, Any], steps: tuple[str, ...], group: Group, name: str
) -> Iterator[tuple[ApiSchema, object]]:
    for media, content in as_mapping(body.get("content")).items():
        if JSON_MEDIA.fullmatch(media) and isinstance(content, Mapping) and "schema" in content:
            yield ApiSchema(group=group, name=name, steps=(*steps, "content", media, "schema")), content["schema"]


def find_object(
    document: Mapping[str, Any], value: object, steps: tuple[str, ...]
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return an object and its path; if the object is a reference into the document, return the target and its path."""
    reference = as_mapping(value).get("$ref")
    if not isinstance(reference, str):
        return as_mapping(value), steps
    return as_mapping(follow(document, _tokens(reference)) if _is_local(reference) else None), _tokens(reference)


def _is_local(reference: object) -> TypeGuard[str]:
    """Return whether the value is a reference into the same document."""
    return isinstance(reference, str) and reference.startswith("#/")


def _tokens(reference: str) -> tuple[str, ...]:
    return tokens_of(unquote(reference))


#: OpenAPI keywords that JSON Schema does not have, and that do not constrain instances.
_DROPPED = ("discriminator", "xml", "externalDocs")
_BOUNDS = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))


def convert(schema: Any, *, unused: str | None) -> Any:
    """
    Return the schema as JSON Schema 2020-12.

    `unused` is the flag (`readOnly` in requests, `writeOnly` in responses) of properties that are not required; None
    for schemas that are used in both directions.
    """
    try:
        return rebuild(schema, lambda part: _convert_object(part, unused))
    except RecursionError:
        raise Unreadable("nested too deeply to be converted", reason="too_deep") from None


def _convert_object(schema: dict[str, Any], unused: str | None) -> dict[str, Any]:
    if isinstance(schema.get("$ref"), str):
        # other keywords next to a reference are ignored; `$defs` contains the referenced schemas, at the root
        return {keyword: schema[keyword] for keyword in ("$ref", "$defs") if keyword in schema}
    for keyword in _DROPPED:
        schema.pop(keyword, None)
    # `nullable` adds null to `type`; it has no effect without a type, or on an `enum` without null
    if schema.pop("nullable", None) is True and isinstance(kind := schema.get("type"), str):
        schema["type"] = [kind, "null"]
    for bound, exclusive in _BOUNDS:
        if (flag := schema.get(exclusive)) is True and bound in schema:
            schema[exclusive] = schema.pop(bound)
        elif isinstance(flag, bool):
            del schema[exclusive]
    if "example" in schema:
        schema["examples"] = [schema.pop("example")]
    if unused is not None:
        _remove_required(schema, unused)
    return schema


def _remove_required(schema: dict[str, Any], unused: str) -> None:
    required = schema.get("required")
    properties = schema.get("properties")
    if not isinstance(required, list) or not isinstance(properties, dict):
        return
    flagged = {name for name, part in properties.items() if isinstance(part, dict) and part.get(unused) is True}
    kept = [name for name in required if not (isinstance(name, str) and name in flagged)]
    if kept:
        schema["required"] = kept
    else:
        del schema["required"]
