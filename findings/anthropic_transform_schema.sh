#!/usr/bin/env bash
# anthropic: the schema that transform_schema makes of a Pydantic model.
#
# Guess: what Claude's subset lacks is either refused or moved to the description; the result still allows what the
#   model allows.
# Packages: anthropic==2.14.0 pydantic==2.14.4
# Versions: anthropic 2.14.0, pydantic 2.14.4, Python 3.11; 2026-11-28
# Behaviour: a dict[str, int] becomes a closed object without properties, to which only {} conforms; a tuple becomes an
#   array of anything, with its types in the description; the description of a field that is a model of its own is lost,
#   as it stands next to $ref.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check anthropic==2.14.0 pydantic==2.14.4
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import json

import anthropic
from pydantic import BaseModel, Field


class Item(BaseModel):
    name: str


class Order(BaseModel):
    counts: dict[str, int]
    pair: tuple[int, str]
    item: Item = Field(description="The item that is sold most")


print("before")
for name, schema in Order.model_json_schema()["properties"].items():
    print(f"  {name}: {json.dumps(schema)}")
print("after")
for name, schema in anthropic.transform_schema(Order)["properties"].items():
    print(f"  {name}: {json.dumps(schema)}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
before
  counts: {"additionalProperties": {"type": "integer"}, "title": "Counts", "type": "object"}
  pair: {"maxItems": 2, "minItems": 2, "prefixItems": [{"type": "integer"}, {"type": "string"}], "title": "Pair", "type": "array"}
  item: {"$ref": "#/$defs/Item", "description": "The item that is sold most"}
after
  counts: {"type": "object", "title": "Counts", "properties": {}, "additionalProperties": false}
  pair: {"type": "array", "title": "Pair", "description": "{maxItems: 2, prefixItems: [{'type': 'integer'}, {'type': 'string'}], minItems: 2}"}
  item: {"$ref": "#/$defs/Item"}
OUTPUT
