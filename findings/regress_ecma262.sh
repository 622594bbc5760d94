#!/usr/bin/env bash
# regress: a regular expression engine "that follows ECMA-262" beside V8.
#
# Guess: it reads and matches as V8 does.
# Packages: regress==2026.9.1
# Versions: regress 2026.9.1, Python 3.11, Linux x86_64; V8 of Node 20.20.2 for the second column; 2026-11-28
# Behaviour: without the flag u, \u{61} is read as a code point (V8: u, 61 times); a reference to a group from inside
#   that group keeps what an abandoned attempt captured; a lazy quantifier inside {1} inside + is not tried again; \b may
#   be quantified; [\k] next to a named group is accepted; an optional half of a surrogate pair never matches.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check regress==2026.9.1
"$work/venv/bin/python" - >"$work/output" <<'PROGRAM'
import regress

#: pattern, text, and what V8 says: whether it matches, or None for a SyntaxError
PAIRS = [
    (r"^\u{61}$", "a", False),
    (r"^\u{61}$", "u" * 61, True),
    (r"(.+\1)a", "bba", True),
    (r"^(?:.(?:(?=-)-*?){1})+!$", "a-!", True),
    (r"\b+", "a", None),
    (r"(?<a>b)[\k]", "bk", None),
    (r"^\uD83D*$", "", True),
    (r"^[\uD83D]*$", "", True),
]
for pattern, text, v8 in PAIRS:
    try:
        found = regress.Regex(pattern).find(text) is not None
    except regress.RegressError:
        found = None
    shown = text if len(text) < 9 else f"{text[0]} * {len(text)}"
    print(f"{pattern:28} {shown!r:9} regress {found!s:6} V8 {v8!s:6} {'' if found == v8 else 'differs'}".rstrip())
PROGRAM
cat "$work/output"
diff -u - "$work/output" <<'OUTPUT'
^\u{61}$                     'a'       regress True   V8 False  differs
^\u{61}$                     'u * 61'  regress False  V8 True   differs
(.+\1)a                      'bba'     regress False  V8 True   differs
^(?:.(?:(?=-)-*?){1})+!$     'a-!'     regress False  V8 True   differs
\b+                          'a'       regress True   V8 None   differs
(?<a>b)[\k]                  'bk'      regress True   V8 None   differs
^\uD83D*$                    ''        regress False  V8 True   differs
^[\uD83D]*$                  ''        regress True   V8 True
OUTPUT
