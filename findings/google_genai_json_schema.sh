#!/usr/bin/env bash
# google-genai: types.Schema.from_json_schema with the schema that Pydantic makes.
#
# Guess: the SDK, which itself depends on Pydantic, reads each schema that Pydantic makes, or drops what it cannot say.
# Packages: google-genai==3.6.1 pydantic==2.14.4
# Versions: google-genai 3.6.1, pydantic 2.14.4, Python 3.11; 2026-11-28
# Behaviour: a Literal of one value (const) and a tuple (prefixItems) are validation errors of types.JSONSchema; a set
#   (uniqueItems) and a pattern pass, and uniqueItems is lost on the way.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check google-genai==3.6.1 pydantic==2.14.4
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import json
from typing import Literal

from google.genai import types
from pydantic import BaseModel, Field, ValidationError


class OneWord(BaseModel):
    field: Literal["a"]


class TwoWords(BaseModel):
    field: Literal["a", "b"]


class Pair(BaseModel):
    field: tuple[int, str]


class Names(BaseModel):
    field: set[str]


class Code(BaseModel):
    field: str = Field(pattern="^[A-Z]$")


for model in (OneWord, TwoWords, Pair, Names, Code):
    schema = model.model_json_schema()
    print(model.__name__, json.dumps(schema["properties"]["field"]))
    try:
        read = types.Schema.from_json_schema(json_schema=types.JSONSchema(**schema))
        assert read.properties is not None
        print("  ", read.properties["field"].model_dump_json(exclude_none=True))
    except ValidationError as error:
        print("  ValidationError:", error.errors()[0]["loc"][-1], error.errors()[0]["msg"])
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
OneWord {"const": "a", "title": "Field", "type": "string"}
  ValidationError: const Extra inputs are not permitted
TwoWords {"enum": ["a", "b"], "title": "Field", "type": "string"}
   {"enum":["a","b"],"title":"Field","type":"STRING"}
Pair {"maxItems": 2, "minItems": 2, "prefixItems": [{"type": "integer"}, {"type": "string"}], "title": "Field", "type": "array"}
  ValidationError: prefixItems Extra inputs are not permitted
Names {"items": {"type": "string"}, "title": "Field", "type": "array", "uniqueItems": true}
   {"items":{"type":"STRING"},"title":"Field","type":"ARRAY"}
Code {"pattern": "^[A-Z]$", "title": "Field", "type": "string"}
   {"pattern":"^[A-Z]$","title":"Field","type":"STRING"}
OUTPUT
