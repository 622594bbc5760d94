#!/usr/bin/env bash
# jsonschema-rs: places inside a document, and what an error costs.
#
# Guess: an array index in a JSON pointer has no leading zero (RFC 6901, 4); a property called "1" is text in the path of
#   an error; a subschema with its own $schema is read by it however it is reached; iter_errors makes one error at a time.
# Packages: jsonschema-rs==0.61.0
# Versions: jsonschema-rs 0.61.0, Python 3.11, Linux x86_64; 2026-11-28
# Behaviour: "01" and "+1" resolve to index 1; the property "1" is the number 1 in instance_path; an embedded draft-07
#   schema reached by a pointer is read as 2020-12 (dependentRequired is not in draft 7), reached by its $id as draft 7;
#   the first of 50,000 errors costs the time and memory of all of them.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check jsonschema-rs==0.61.0
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import json
import resource

from jsonschema_rs import Draft4Validator, Draft202012Validator

second = {"prefixItems": [{}, {"type": "integer"}]}
for index in ("1", "01", "+1"):
    valid = Draft202012Validator({"$ref": f"#/prefixItems/{index}", **second}).is_valid("text")
    print(f"#/prefixItems/{index}: text is {'valid' if valid else 'invalid: the index resolved'}")

error = next(Draft202012Validator({"properties": {"1": {"type": "string"}}}).iter_errors({"1": 2}))
print("instance_path of the property '1':", error.instance_path)

embedded = {
    "$id": "https://example.org/e",
    "$schema": "http://json-schema.org/draft-07/schema#",
    "dependentRequired": {"a": ["b"]},
}
for reference in ("#/$defs/e", "https://example.org/e"):
    valid = Draft202012Validator({"$ref": reference, "$defs": {"e": embedded}}).is_valid({"a": 1})
    print(f"draft-07 schema by {reference}: {'read as draft 7' if valid else 'read as 2020-12'}")

try:
    Draft4Validator({"enum": [1, 1]})
    print("draft 4: an enum with a value twice is accepted")
except ValueError as error:
    print("draft 4:", error)

answer = json.loads(json.dumps([1] * 50_000))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
next(iter(Draft202012Validator({"items": {"type": "string"}}).iter_errors(answer)))
kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print("the first of 50,000 errors takes more than 20 MB:", kilobytes > 20_000)
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
#/prefixItems/1: text is invalid: the index resolved
#/prefixItems/01: text is invalid: the index resolved
#/prefixItems/+1: text is invalid: the index resolved
instance_path of the property '1': [1]
draft-07 schema by #/$defs/e: read as 2020-12
draft-07 schema by https://example.org/e: read as draft 7
draft 4: an enum with a value twice is accepted
the first of 50,000 errors takes more than 20 MB: True
OUTPUT
