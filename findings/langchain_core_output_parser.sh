#!/usr/bin/env bash
# langchain-core: PydanticOutputParser on an answer that stopped at the token limit.
#
# Guess: an answer that is cut off in the middle is not JSON, so that parse() raises OutputParserException; if the parser
#   is lenient about text after the JSON, it is as lenient about text before it.
# Packages: langchain-core==1.8.3 pydantic==2.14.4
# Versions: langchain-core 1.8.3, pydantic 2.14.4, Python 3.11; 2026-11-28
# Behaviour: the cut answer is closed without any sign: a half-written text is a field's value, a number loses its last
#   digits, a list its last items. Text after the JSON passes; the same text before it raises.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check langchain-core==1.8.3 pydantic==2.14.4
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
from langchain_core.exceptions import OutputParserException
from langchain_core.output_parsers import PydanticOutputParser
from pydantic import BaseModel


class Invoice(BaseModel):
    items: list[str]
    vendor: str = ""
    total: int = 0


parser = PydanticOutputParser(pydantic_object=Invoice)
for answer in (
    '{"items": ["pen", "pencil"], "vendor": "ACME", "total": 1250}',
    '{"items": ["pen", "pencil"], "vendor": "AC',
    '{"items": ["pen", "pencil"], "vendor": "ACME", "total": 12',
    '{"items": ["pen", "pen',
    '{"items": ["pen"]} Anything else?',
    'Of course: {"items": ["pen"]}',
):
    try:
        print(f"{answer}\n  {parser.parse(answer)!r}")
    except OutputParserException as error:
        print(f"{answer}\n  OutputParserException: {str(error).splitlines()[0]}")
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
{"items": ["pen", "pencil"], "vendor": "ACME", "total": 1250}
  Invoice(items=['pen', 'pencil'], vendor='ACME', total=1250)
{"items": ["pen", "pencil"], "vendor": "AC
  Invoice(items=['pen', 'pencil'], vendor='AC', total=0)
{"items": ["pen", "pencil"], "vendor": "ACME", "total": 12
  Invoice(items=['pen', 'pencil'], vendor='ACME', total=12)
{"items": ["pen", "pen
  Invoice(items=['pen', 'pen'], vendor='', total=0)
{"items": ["pen"]} Anything else?
  Invoice(items=['pen'], vendor='', total=0)
Of course: {"items": ["pen"]}
  OutputParserException: Invalid json output: Of course: {"items": ["pen"]}
OUTPUT
