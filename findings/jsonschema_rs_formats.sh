#!/usr/bin/env bash
# jsonschema-rs: which strings its asserted formats accept.
#
# Guess: with validate_formats=True, a format accepts the grammar of the RFC that JSON Schema names for it.
# Packages: jsonschema-rs==0.61.0
# Versions: jsonschema-rs 0.61.0, Python 3.11, Linux x86_64; 2026-11-28
# Behaviour: a leap second is accepted on any day (RFC 3339, 5.7 has them at the end of a month, in UTC); a duration in
#   lower case is rejected (RFC 3339 gives its grammar in ABNF, whose strings ignore case); email accepts a mailbox of a
#   header with a display name; hostname knows an A-label in lower case only and accepts one that decodes to nothing
#   registrable; idn-hostname maps upper case, full width and soft hyphens before it checks; relative-json-pointer
#   rejects index manipulation; and drafts 4 to 7 do not assert formats of later drafts, though formats are asserted.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check jsonschema-rs==0.61.0
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
from jsonschema_rs import Draft7Validator, Draft202012Validator

PAIRS = [
    ("date-time", "2024-01-15T23:59:60Z"),
    ("duration", "P1D"),
    ("duration", "p1d"),
    ("email", "John Doe <a@x.org>"),
    ("hostname", "xn--nxasmq6b.example"),
    ("hostname", "XN--NXASMQ6B.example"),
    ("hostname", "xn--tdaesc"),
    ("idn-hostname", "B\u00dcCHER.example"),
    ("idn-hostname", "\uff42\u00fccher.example"),
    ("idn-hostname", "b\u00ad\u00fccher.example"),
    ("relative-json-pointer", "0"),
    ("relative-json-pointer", "0+1"),
]
for name, text in PAIRS:
    accepted = Draft202012Validator({"format": name}, validate_formats=True).is_valid(text)
    print(f"{name:22} {ascii(text):32} {'accepted' if accepted else 'rejected'}")
for name in ("date", "duration", "uuid"):
    accepted = Draft7Validator({"format": name}, validate_formats=True).is_valid("x")
    print(f"draft 7: {name:13} {'x'!r:32} {'accepted' if accepted else 'rejected'}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
date-time              '2024-01-15T23:59:60Z'           accepted
duration               'P1D'                            accepted
duration               'p1d'                            rejected
email                  'John Doe <a@x.org>'             accepted
hostname               'xn--nxasmq6b.example'           accepted
hostname               'XN--NXASMQ6B.example'           rejected
hostname               'xn--tdaesc'                     accepted
idn-hostname           'B\xdcCHER.example'              accepted
idn-hostname           '\uff42\xfccher.example'         accepted
idn-hostname           'b\xad\xfccher.example'          accepted
relative-json-pointer  '0'                              accepted
relative-json-pointer  '0+1'                            rejected
draft 7: date          'x'                              rejected
draft 7: duration      'x'                              accepted
draft 7: uuid          'x'                              accepted
OUTPUT
