"""Parse the text of a schema and find its dialect, or return the reason why the schema is unusable."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pytest_jsbench.core.json_values import too_deep
from pytest_jsbench.core.text import printable
from pytest_jsbench.schemas.dialects import DIALECTS, DRAFT_2020_12, Dialect, dialect_of, find_dialect
from pytest_jsbench.schemas.keywords import REFERENCES, children, walk
from pytest_jsbench.schemas.metaschemas import UnknownVocabulary, custom_dialect, remove_foreign_keywords
from pytest_jsbench.schemas.references import References
from pytest_jsbench.verdicts.answer_text import RejectedTextError, exact_number, has_lone_surrogate
from pytest_jsbench.verdicts.verdicts import Note, SchemaReason, Verdict, invalid

if TYPE_CHECKING:
    from pytest_jsbench.verdicts.verdicts import JudgePolicy

#: Maximum nesting depth of arrays and objects in a schema; jsonschema-rs stops at 255.
DEEPEST_SCHEMA = 250

#: A printable ASCII character that is written as an escape `\u00..`, which JSON writers rarely do.
_ESCAPED_ASCII = re.compile(r"\\u00[2-7]")
#: Characters that need no percent-encoding in a URI before its fragment, and in the fragment (RFC 3986, appendix A).
_URI = "%/?:@!$&'()*+,;=[]"
_FRAGMENT = "%/?:@!$&'()*+,;="
#: A reference without any character that must be percent-encoded.
_ENCODED = re.compile(rf"[\w.~{re.escape(_URI)}-]*(?:#[\w.~{re.escape(_FRAGMENT)}-]*)?", re.ASCII)
#: A `$ref` whose text has no escapes.
_REFERENCE = re.compile(r'"\$ref"\s*:\s*"([^"\\]*)"')
_DEFINITIONS = frozenset({"$defs", "definitions"})
#: An `$id` or `id` whose value has both a URI and a fragment.
_ID_WITH_FRAGMENT = re.compile(r'"\$?id"\s*:\s*"[^"#]+#[^"]')


@dataclass(frozen=True, kw_only=True)
class ReadSchema:
    """A parsed schema with its dialect."""

    schema: bool | dict[str, Any]
    dialect: Dialect
    text: str
    #: Whether the schema contains a number that a double cannot represent.
    has_decimals: bool
    #: Notes that are added to every verdict by this schema.
    notes: tuple[Note, ...] = ()

    @functools.cached_property
    def references(self) -> References:
        """The schema's references, which also list its subschemas; created on first use."""
        return References(self.schema, self.dialect)

    @property
    def hides_ascii(self) -> bool:
        """
        Whether the text may contain keywords or names in which letters are escaped, so that a text
        search misses them.
        """
        return "\\u00" in self.text and _ESCAPED_ASCII.search(self.text) is not None

    def asserts_formats(self, policy: JudgePolicy) -> bool:
        """Return whether `format` can make an instance invalid."""
        asserted = self.dialect.asserts_formats
        return policy.formats == "assert" if asserted is None else asserted

    def convert_to_published_draft(self) -> bool | dict[str, Any]:
        """Return an equivalent schema in a published draft, for validators that do not support custom metaschemas."""
        return self.schema if self.dialect in DIALECTS else remove_foreign_keywords(self.schema, self.dialect)


def read_schema(text: str, default_dialect: str) -> ReadSchema | Verdict:
    """Parse a JSON text as a schema, or return the verdict that states why it is unusable."""
    if too_deep(text, DEEPEST_SCHEMA):
        return invalid(SchemaReason.TOO_DEEP, f"the schema nests more than {DEEPEST_SCHEMA} levels deep")
    kinds: set[type] = set()

    def number(digits: str) -> float | Decimal:
        value = exact_number(digits)
        kinds.add(type(value))
        return value

    try:
        schema = json.loads(text, parse_float=number)
    except RejectedTextError as error:
        return invalid(SchemaReason.NOT_JSON, str(error))
    if has_lone_surrogate(text, schema):
        return invalid(SchemaReason.NOT_JSON, "the schema contains a lone surrogate, which JSON text cannot contain")
    if not isinstance(schema, (bool, dict)):
        message = f"found {printable(text, 60)}; expected a JSON Schema: an object, true or false"
        return invalid(SchemaReason.NOT_A_SCHEMA, message)
    dialect = _dialect(schema, find_dialect(default_dialect) or DRAFT_2020_12)
    if isinstance(dialect, Verdict):
        return dialect
    if isinstance(schema, dict) and dialect.lone_references and _ID_WITH_FRAGMENT.search(text):
        _drop_fragments_of_ids(schema, dialect)
    notes: tuple[Note, ...] = ()
    may_refer = 'ef"' in text or "\\u00" in text
    as_is = not may_refer or _are_references_encoded(text)
    if not as_is and isinstance(schema, dict) and _percent_encode_references(schema, dialect):
        notes = (Note.UNENCODED_REFERENCE,)
    return ReadSchema(schema=schema, dialect=dialect, text=text, has_decimals=Decimal in kinds, notes=notes)


def _drop_fragments_of_ids(root: dict[str, Any], dialect: Dialect) -> None:
    """
    Replace `$id: "uri#name"` by `$id: "uri"`, and references to this name by references to the URI.

    Both forms mean the same schema. Drafts 4 to 7 only advise against such an `$id`, but jsonschema-rs does not resolve
    references below it. Below the root, an `$id` with a JSON pointer only names a place, so it is not changed.
    """
    references = References(root, dialect)
    named: list[tuple[dict[str, Any], str]] = []
    for schema in references.schemas:
        uri, _, fragment = _text_of(schema, dialect.id_keyword).partition("#")
        is_resource = references.resolve(schema, "#") is schema
        if uri and fragment and is_resource and (schema is root or not fragment.startswith("/")):
            named.append((schema, uri))
    targets = [id(schema) for schema, _ in named]
    for schema in references.schemas:
        uri, _, fragment = _text_of(schema, "$ref").partition("#")
        if fragment and not fragment.startswith("/") and id(references.resolve(schema, schema["$ref"])) in targets:
            schema["$ref"] = uri or "#"
    for schema, uri in named:
        schema[dialect.id_keyword] = uri


def _text_of(schema: dict[str, Any], keyword: str) -> str:
    value = schema.get(keyword)
    return value if isinstance(value, str) else ""


def _are_references_encoded(text: str) -> bool:
    """Return whether the schema has only `$ref`s that are percent-encoded already, without visiting its parts."""
    if 'cRef"' in text or 'eRef"' in text or _ESCAPED_ASCII.search(text) is not None:
        return False
    found = _REFERENCE.findall(text)
    return len(found) == text.count('"$ref"') and all(map(_ENCODED.fullmatch, found))


def _percent_encode_references(root: dict[str, Any], dialect: Dialect) -> bool:
    """
    Percent-encode the references in the schema; return whether any reference was changed.

    In a schema with dynamic references, each embedded resource is also replaced by a reference to the resource in
    `$defs`.
    """
    schemas = list(walk(root))
    encoded = False
    dynamic = False
    for schema in schemas:
        if REFERENCES.isdisjoint(schema):
            continue
        for keyword in REFERENCES & schema.keys():
            if isinstance(reference := schema[keyword], str):
                if not _ENCODED.fullmatch(reference):
                    uri, mark, fragment = reference.partition("#")
                    schema[keyword] = quote(uri, safe=_URI) + mark + quote(fragment, safe=_FRAGMENT)
                    encoded = encoded or schema[keyword] != reference
                dynamic = dynamic or (keyword != "$ref" and keyword in dialect.keywords)
    for schema in schemas if dynamic else ():
        named = [id(part) for part in children({name: schema[name] for name in _DEFINITIONS & schema.keys()})]
        for child in children(schema):
            name = child.get("$id")
            if isinstance(name, str) and not name.startswith("#") and id(child) not in named:
                # unless a resource is entered by a reference, both libraries forget the resources around it (core, 7.1)
                resource = dict(child)
                child.clear()
                child.update({"$ref": name, "$defs": {"resource": resource}})
    return encoded


def _dialect(schema: bool | dict[str, Any], default: Dialect) -> Dialect | Verdict:
    """Return the dialect that the schema declares: a published dialect, or the dialect of an embedded metaschema."""
    published = dialect_of(schema, default)
    if published is not None or isinstance(schema, bool):
        return published or default
    custom = custom_dialect(schema)
    if isinstance(custom, UnknownVocabulary):
        message = f"the metaschema {custom.metaschema[:100]} requires the unknown vocabulary {custom.uri[:100]}"
        return invalid(SchemaReason.UNKNOWN_VOCABULARY, message)
    if custom is None:
        uris = ", ".join(each.uri for each in DIALECTS)
        message = (
            f"unknown $schema {json.dumps(schema['$schema'])[:100]}; "
            f"expected one of {uris}, or a metaschema embedded in the schema"
        )
        return invalid(SchemaReason.UNKNOWN_DIALECT, message)
    return custom
