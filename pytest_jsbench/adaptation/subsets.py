"""Define the subset of JSON Schema that each provider documents at a given date."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pytest_jsbench.adaptation.document import KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetLimits:
    """Limits for the size of one schema; None for a size without a limit."""

    properties: int | None = None
    #: Levels of nested objects and arrays.
    depth: int | None = None
    #: Number of characters in the names of properties and definitions, and in enum and const values.
    characters: int | None = None
    #: Number of enum values in the whole schema.
    enum_values: int | None = None
    #: Number of enum values above which the total length is limited to `long_enum_characters`.
    long_enum: int | None = None
    long_enum_characters: int | None = None
    optional: int | None = None
    #: Number of subschemas with `anyOf` or a list of types.
    unions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Limits for all schemas of one request together that the provider enforces; None for a size without a limit."""

    #: Number of strict tools.
    strict_tools: int | None = None
    optional: int | None = None
    unions: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """The part of JSON Schema that a provider supports at a given date; `keywords` also contains annotations."""

    name: str
    #: Month of the provider's documentation, such as `2026-08`.
    date: str
    source: str
    keywords: frozenset[str]
    formats: frozenset[str]
    #: Keywords that are allowed next to `$ref`.
    reference_siblings: frozenset[str] = frozenset()
    #: True if the root must be the schema of an object, and not an `anyOf` or a `$ref`.
    object_root: bool = False
    #: True if every object must have `additionalProperties: false`.
    closed: bool = False
    #: True if every object must require all of its properties.
    all_required: bool = False
    #: True if every schema must have a `type`, and every array `items`.
    typed: bool = False
    #: Lists that are allowed as `type`: any, or only one type and null.
    type_lists: Literal["any", "nullable"] = "any"
    #: Where references may be recursive: anywhere, only within an optional property, or nowhere.
    recursion: Literal["any", "optional", "none"] = "any"
    #: True if `enum` and `const` must not contain arrays or objects.
    scalar_values: bool = True
    #: Largest supported `minItems`; None for any.
    most_min_items: int | None = None
    #: Regular expression for the unsupported parts of a pattern.
    forbidden_pattern: re.Pattern[str] = re.compile(r"(?!)")
    #: Maximum number of repetitions in patterns that the adaptation generates, as in `{n,m}`.
    longest_repeat: int = 0
    limits: SubsetLimits = SubsetLimits()
    #: Limits for one request; `source` documents them too.
    per_request: RequestLimits = RequestLimits()
    #: Undocumented limits above which the provider is likely to reject a schema as too complex.
    likely: SubsetLimits = SubsetLimits()

    @property
    def version(self) -> str:
        """Name and date, such as `openai@2026-08`."""
        return f"{self.name}@{self.date}"

    def accepts(self, schema: Any, *, deepest: int = 60) -> bool:
        """Return whether a schema without references is already in the subset; its size is not checked."""
        if not isinstance(schema, Mapping) or not deepest or schema.keys() - (self.keywords - _DOCUMENT_KEYWORDS):
            return False
        if not all(isinstance(schema.get(keyword, kind()), kind) for keyword, kind in _SHAPES.items()):
            return False
        declared = schema.get("type", [])
        required = schema.get("required", [])
        properties: Mapping[str, Any] = schema.get("properties", {})
        kinds = [declared] if isinstance(declared, str) else declared
        objects = "object" in kinds or properties or "additionalProperties" in schema
        values = [*schema.get("enum", []), schema.get("const")]
        inside = [*schema.get("anyOf", []), *schema.get("allOf", []), *schema.get("prefixItems", [])]
        inside += [schema["items"]] if "items" in schema else []
        others = schema.get("additionalProperties", True)
        inside += [] if isinstance(others, bool) else [others]
        return (
            isinstance(kinds, list)
            and all(kind in KINDS for kind in kinds)
            and all(isinstance(name, str) for name in required)
            and (bool(kinds) or not self.typed)
            and (self.type_lists == "any" or len(kinds) < 2 or (len(kinds) == 2 and "null" in kinds))
            and not (objects and self.closed and schema.get("additionalProperties") is not False)
            and (not self.all_required or all(name in required for name in properties))
            and ("format" not in schema or schema["format"] in self.formats)
            and (self.most_min_items is None or schema.get("minItems", 0) <= self.most_min_items)
            and self.forbidden_pattern.search(schema.get("pattern", "")) is None
            and not (self.scalar_values and any(isinstance(value, dict | list) for value in values))
            and all(self.accepts(part, deepest=deepest - 1) for part in [*properties.values(), *inside])
        )


#: Keywords that apply to a whole document, or refer to another part of it.
_DOCUMENT_KEYWORDS = frozenset({"$ref", "$defs", "definitions", "$schema"})
_SHAPES: dict[str, type] = {
    "properties": dict,
    **dict.fromkeys(("required", "enum", "anyOf", "allOf", "prefixItems"), list),
    **dict.fromkeys(("pattern", "format"), str),
    "minItems": int,
}

#: Keywords that every provider supports.
_COMMON = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "$ref", "$defs", "title",
     "description"}
)  # fmt: skip
_NAMES = frozenset({"title", "description"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_LOOK_AROUND = r"\(\?<?[=!]"

#: Assumed limits of providers that document none, and report only "too complex" or "too many states". The values are
#: the documented limits of other providers.
_SIZES = SubsetLimits(optional=24, unions=16, enum_values=1000, depth=10)

OPENAI = Subset(
    name="openai",
    date="2026-08",
    source="https://developers.openai.com/api/docs/guides/structured-outputs",
    keywords=_COMMON | _NUMBERS | {"$schema", "const", "pattern", "format", "minItems", "maxItems"},
    formats=_FORMATS,
    object_root=True,
    closed=True,
    all_required=True,
    typed=True,
    forbidden_pattern=re.compile(_LOOK_AROUND),
    longest_repeat=1000,
    limits=SubsetLimits(
        properties=5000, depth=10, characters=120_000, enum_values=1000, long_enum=250, long_enum_characters=15_000
    ),
)

#: First version of OpenAI's subset, which Azure still documents.
OPENAI_2024 = replace(
    OPENAI,
    date="2024-08",
    source="https://learn.microsoft.com/azure/ai-services/openai/how-to/structured-outputs",
    keywords=_COMMON | {"$schema", "const"},
    formats=frozenset(),
    limits=SubsetLimits(
        properties=100, depth=5, characters=15_000, enum_values=500, long_enum=250, long_enum_characters=7_500
    ),
)

ANTHROPIC = Subset(
    name="anthropic",
    date="2026-09",
    source="https://platform.claude.com/docs/en/build-with-claude/structured-outputs",
    keywords=_COMMON | {"$schema", "definitions", "allOf", "const", "pattern", "format", "minItems", "default"},
    formats=_FORMATS | {"uri"},
    reference_siblings=_NAMES,
    closed=True,
    recursion="none",
    most_min_items=1,
    # look-around, word boundaries, backreferences, and repetitions of 100 or more
    forbidden_pattern=re.compile(_LOOK_AROUND + r"|\\[bBk1-9]|\{\d*,?\d{3,}"),
    longest_repeat=99,
    limits=SubsetLimits(optional=24, unions=16),
    per_request=RequestLimits(strict_tools=20, optional=24, unions=16),
)

#: Subset of the Claude models on Amazon Bedrock, for all of its APIs.
BEDROCK = replace(
    ANTHROPIC,
    name="bedrock",
    date="2026-02",
    source="https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html",
)

GEMINI = Subset(
    name="gemini",
    date="2026-09",
    source="https://ai.google.dev/api/generate-content",
    likely=_SIZES,
    keywords=_COMMON | {"format", "minimum", "maximum", "prefixItems", "minItems", "maxItems"},
    formats=frozenset({"date-time", "date", "time"}),
    typed=True,
    type_lists="nullable",
    recursion="optional",
)

#: Subset of Groq's strict mode, which rejects other keywords with errors such as "minItems is not supported".
GROQ = Subset(
    name="groq",
    date="2026-11",
    source="https://console.groq.com/docs/structured-outputs",
    likely=_SIZES,
    keywords=_COMMON,
    formats=frozenset(),
    object_root=True,
    closed=True,
    all_required=True,
    typed=True,
)

#: Subset of xAI, which closes objects by default and reads `oneOf` as `anyOf`.
XAI = Subset(
    name="xai",
    date="2026-11",
    source="https://docs.x.ai/developers/model-capabilities/text/structured-outputs",
    likely=_SIZES,
    keywords=_COMMON | {"$schema", "const", "format"},
    formats=frozenset({"date", "time", "date-time", "email", "uuid", "ipv4"}),
    closed=True,
    recursion="none",
)

#: Subset of Fireworks AI, which silently ignores other keywords.
FIREWORKS = Subset(
    name="fireworks",
    date="2026-11",
    source="https://fireworks.ai/docs/structured-responses/structured-response-formatting",
    likely=_SIZES,
    keywords=_COMMON | {"$schema", "definitions", "allOf", "default"},
    formats=frozenset(),
)

#: Subset that Mistral's own clients send; Mistral does not document a list of keywords.
MISTRAL = Subset(
    name="mistral",
    date="2026-11",
    source="https://docs.mistral.ai/capabilities/structured_output/custom",
    likely=_SIZES,
    keywords=_COMMON | {"const"},
    formats=frozenset(),
    closed=True,
)

#: All subsets; the subsets of one provider are in the order of their dates.
_ALL = (OPENAI_2024, OPENAI, ANTHROPIC, BEDROCK, GEMINI, GROQ, XAI, MISTRAL, FIREWORKS)
PROFILES = {subset.version: subset for subset in _ALL}
#: Newest subset of each provider.
SUBSETS = {subset.name: subset for subset in PROFILES.values()}


def find_subset(text: str) -> Subset | None:
    """Return the subset with this name and date, or the newest subset with this name; None if the name is unknown."""
    return PROFILES.get(text) or SUBSETS.get(text)
