"""Patterns of schemas, written for the engine that decides: Rust's, by jsonschema-rs."""

from __future__ import annotations

import functools
import json
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import jsonschema_rs

from pytest_jsbench.schemas.walking import children, rebuild
from pytest_jsbench.verdicts.ecma_patterns import (
    LAST,
    Alternatives,
    Characters,
    Edge,
    Look,
    Node,
    NotAPatternError,
    Parentheses,
    Range,
    Reference,
    Repeat,
    Sequence,
    read_pattern,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pytest_jsbench.schemas.locations import Path

#: what no engine takes for a pattern, so that a reader of schemas names the place
REFUSED: Final = "*"
#: more characters than any text has, so that it bounds nothing
_ANY_NUMBER: Final = 10_000_000
_SPECIAL: Final = frozenset("^$\\.*+?()[]{}|")
_SPECIAL_IN_CLASS: Final = frozenset("^\\[]-")
#: two of them in a class would mean an operation on sets
_OPERATORS: Final = frozenset("&~")
_SURROGATES: Final = (0xD800, 0xDFFF)
#: an escaped u before a brace, beside other escapes, and beside names of groups, where braces hold a code point
_BRACED: Final = re.compile(r"\\(?:(u)(?=\{)|k<[^>]*>|.)|\(\?<(?![=!])[^>]*>", re.DOTALL)
#: halves of surrogate pairs in a row; classes and other escapes are passed over
_HALVES: Final = re.compile(r"\[(?:\\.|[^\]\\])*\]|((?:\\u[dD][89a-fA-F][0-9a-fA-F]{2})+)|\\.", re.DOTALL)
#: a schema without them has no pattern, and leads through none
_SPEAKING: Final = frozenset({"pattern", "patternProperties", "$ref"})
_ANY: Final = rf"\u{{0}}-\u{{{LAST:X}}}"


class BeyondRustError(ValueError):
    """The pattern says what the engine cannot be told."""


@functools.lru_cache(maxsize=4096)
def translate(text: str) -> str:
    """
    The same pattern for the engine; NotAPatternError where ECMA-262 has no such pattern, BeyondRustError where only
    an engine of ECMA-262 can decide.

    It is written in what both ECMA-262 and Rust read, and read alike. A pattern without classes and escapes of
    ECMA-262's own comes out as it is.
    """
    tree = read_pattern(text).tree
    return _Writer(tree).write()


class _Writer:
    """Writes one pattern. Only groups that are referred to capture, unless there are none of those."""

    def __init__(self, tree: Node) -> None:
        self._tree = tree
        self._referred = frozenset(_references(tree))
        #: the groups that are behind, by what number each is now, and its empty part; and the looks that hold it
        self._numbers: dict[int, tuple[int, int]] = {}
        self._refused_by: dict[int, tuple[Look, ...]] = {}
        self._captures = 0
        self._path: list[Node] = []

    def write(self) -> str:
        """The whole pattern."""
        return self._node(self._tree)

    def _node(self, node: Node) -> str:
        match node:
            case Characters():
                return _characters(node)
            case Sequence(parts):
                return "".join(map(self._node, parts))
            case Edge(kind):
                return _EDGES[kind]
            case Reference(number):
                return self._reference(number)
        self._path.append(node)
        written = self._branch(node)
        self._path.pop()
        return written

    def _branch(self, node: Alternatives | Look | Parentheses | Repeat) -> str:
        match node:
            case Alternatives(options):
                return "|".join(map(self._node, options))
            case Parentheses(body, number):
                return self._group(body, number)
            case Look(body, behind, negated):
                return f"(?{'<' if behind else ''}{'!' if negated else '='}{self._node(body)})"
            case Repeat():
                return self._repeat(node)

    def _group(self, body: Node, number: int | None) -> str:
        if number is None or (self._referred and number not in self._referred):
            return f"(?:{self._node(body)})"
        if not self._referred:
            return f"({self._node(body)})"
        self._must_be_followable()
        self._captures += 1
        own = self._captures
        written = self._node(body)
        # the part that tells so stands behind all of the alternatives, and is counted after the groups inside
        inner = f"(?:{written})" if isinstance(body, Alternatives) else written
        self._captures += 1
        self._numbers[number] = own, self._captures
        self._refused_by[number] = tuple(each for each in self._path if isinstance(each, Look) and each.negated)
        return f"({inner}())"

    def _must_be_followable(self) -> None:
        """
        Stop where the engine keeps another capture than ECMA-262.

        22.2.2.3, RepeatMatcher: each round of a quantifier forgets what its groups captured, and none may be empty.
        """
        may_be_left_out = False
        for outer in reversed(self._path[:-1]):
            match outer:
                case Look(_, behind, negated) if behind or not negated:
                    # 22.2.2.4: what is behind is matched from its end, and what is ahead is matched once
                    message = "a group in a look-around, referred to"
                    raise BeyondRustError(message)
                case Alternatives():
                    may_be_left_out = True
                case Repeat(body, least, most, _):
                    loops = most is None or most > 1
                    if loops and (may_be_left_out or _can_be_empty(body)):
                        message = "a group that a quantifier can leave out in its last round"
                        raise BeyondRustError(message)
                    may_be_left_out = may_be_left_out or least == 0

    def _reference(self, number: int) -> str:
        """22.2.2.9: a group that captured nothing is matched by nothing. The group's last, empty part tells so."""
        if any(isinstance(outer, Look) and outer.behind for outer in self._path):
            message = "a reference in a look-behind"
            raise BeyondRustError(message)
        numbers = self._numbers.get(number)
        if numbers is None or any(look not in self._path for look in self._refused_by[number]):
            return "(?:)"
        own, end = numbers
        return rf"(?:\{own}|(?!\{end}))"

    def _repeat(self, node: Repeat) -> str:
        if isinstance(node.body, Look):
            # its groups are not counted where it is left out
            return self._node(node.body) if node.least else ""
        body = self._node(node.body)
        if body == "(?:)":
            return body if node.least else ""
        most = None if node.most is None or node.most > _ANY_NUMBER else node.most
        return body + _quantifier(node.least, most) + ("?" if node.lazy else "")


#: with look-around, since the engine knows words of Unicode alone
_WORD_CLASS: Final = "[0-9A-Z_a-z]"
_EDGES: Final = {
    "^": "^",
    "$": "$",
    "b": f"(?:(?<={_WORD_CLASS})(?!{_WORD_CLASS})|(?<!{_WORD_CLASS})(?={_WORD_CLASS}))",
    "B": f"(?:(?<={_WORD_CLASS})(?={_WORD_CLASS})|(?<!{_WORD_CLASS})(?!{_WORD_CLASS}))",
}


def _quantifier(least: int, most: int | None) -> str:
    short = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((least, most))
    if short:
        return short
    return f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"


@functools.lru_cache(maxsize=4096)
def _characters(node: Characters) -> str:
    if not node.negated and len(node.ranges) == 1 and node.ranges[0][0] == node.ranges[0][1]:
        code = node.ranges[0][0]
        if not _SURROGATES[0] <= code <= _SURROGATES[1]:
            return _literal(code, _SPECIAL)
    members = "".join(map(_range, node.ranges))
    if not members:
        # the engine has no class of nothing
        return f"[{_ANY}]" if node.negated else f"[^{_ANY}]"
    return f"[{'^' if node.negated else ''}{members}]"


def _range(both: Range) -> str:
    """The characters of a range; a text holds no halves of surrogate pairs, and the engine has no name for them."""
    low, high = both
    first, last = _SURROGATES
    if low < first and last < high:
        return _range((low, first - 1)) + _range((last + 1, high))
    low = last + 1 if first <= low <= last else low
    high = first - 1 if first <= high <= last else high
    if low > high:
        return ""
    start, end = _literal(low, _SPECIAL_IN_CLASS), _literal(high, _SPECIAL_IN_CLASS)
    return start if low == high else start + end if high == low + 1 else f"{start}-{end}"


def _literal(code: int, special: frozenset[str]) -> str:
    character = chr(code)
    if character in special:
        return "\\" + character
    return character if character.isprintable() and character not in _OPERATORS else f"\\u{{{code:X}}}"


def _references(node: Node) -> list[int]:
    match node:
        case Reference(number):
            return [number]
        case Sequence(several) | Alternatives(several):
            return [number for each in several for number in _references(each)]
        case Look(body) | Parentheses(body) | Repeat(body):
            return _references(body)
    return []


def _can_be_empty(node: Node) -> bool:
    match node:
        case Characters():
            return False
        case Edge() | Look() | Reference():
            return True
        case Sequence(parts):
            return all(map(_can_be_empty, parts))
        case Alternatives(options):
            return any(map(_can_be_empty, options))
        case Parentheses(body):
            return _can_be_empty(body)
        case Repeat(body, least):
            return least == 0 or _can_be_empty(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedSchema:
    """The patterns of a schema, each written for the engine."""

    #: the schema's own objects whose patterns have to be written otherwise, and how all of its patterns are
    places: tuple[dict[str, Any], ...] = ()
    written: Mapping[str, str] = field(default_factory=dict)
    #: how the schema itself writes each pattern that had to be written otherwise
    originals: Mapping[str, str] = field(default_factory=dict)
    #: whether the engine matches one of them by backtracking, and so within a limit
    may_backtrack: bool = False

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """While the engine reads the schema, its patterns stand there as they are written for the engine."""
        own = [dict(place) for place in self.places]
        for place in self.places:
            _rewrite_keywords(self.written, place)
        try:
            yield
        finally:
            for place, before in zip(self.places, own, strict=True):
                place.update(before)

    def original(self, pattern: str) -> str:
        """The pattern as the schema itself writes it."""
        return self.originals.get(pattern, pattern)

    def original_path(self, path: Iterable[str | int]) -> Path:
        """The path through the schema as it is itself."""
        steps = tuple(path)
        if "patternProperties" not in steps:
            return steps
        return tuple(
            self.original(step) if isinstance(step, str) and before == "patternProperties" else step
            for before, step in zip((None, *steps), steps, strict=False)
        )

    def original_text(self, message: str, quoted: object) -> str:
        """A message that begins with a part of the schema, with that part as it is itself."""
        said, original = map(_compact, (quoted, rewrite_schema(quoted, self.original)))
        return original + message.removeprefix(said) if message.startswith(said) else message


def translate_schema(schema: Any) -> TranslatedSchema:
    """The schema's patterns, written for the engine; what is no pattern comes out as one that it refuses."""
    places = _places_of_patterns(schema)
    written = _distinct({pattern: _written(pattern) for place in places for pattern in _patterns(place)})
    originals = {new: old for old, new in written.items() if old != new}
    return TranslatedSchema(
        places=tuple(places) if originals else (),
        written=written,
        originals=originals,
        may_backtrack=any("(?=" in new or "(?!" in new or "(?<" in new for new in written.values()),
    )


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _written(pattern: str) -> str:
    try:
        return translate(pattern)
    except (NotAPatternError, BeyondRustError):
        return REFUSED + pattern


def _distinct(written: dict[str, str]) -> dict[str, str]:
    r"""The same, with no text twice: `[0-9]` and `\d` side by side stay two patterns."""
    taken = {new for old, new in written.items() if old == new}
    distinct = {}
    for old, new in written.items():
        unlike = new
        while unlike in taken and unlike != old:
            unlike += "(?:)"
        taken.add(unlike)
        distinct[old] = unlike
    return distinct


def _places_of_patterns(schema: Any) -> list[dict[str, Any]]:
    """Every object that may be a schema and that has patterns, or a reference that leads through one."""
    found = []
    pending = children({"": schema})
    while pending:
        subschema = pending.pop()
        if not _SPEAKING.isdisjoint(subschema) and (
            "pattern" in subschema or "patternProperties" in subschema or _refers_through_pattern(subschema)
        ):
            found.append(subschema)
        pending += children(subschema)
    return found


def _refers_through_pattern(schema: dict[str, Any]) -> bool:
    reference = schema.get("$ref")
    return isinstance(reference, str) and "patternProperties/" in reference


def _patterns(schema: dict[str, Any]) -> Iterator[str]:
    """The patterns of the schema's own keywords."""
    if isinstance(pattern := schema.get("pattern"), str):
        yield pattern
    if isinstance(named := schema.get("patternProperties"), dict):
        yield from named


def without_patterns(schema: Any) -> Any:
    """A copy of the schema with a plain word, one for each, where its patterns were: what else is wrong shows then."""
    return rewrite_schema(schema, lambda pattern: pattern.encode().hex())


def rewrite_schema(schema: Any, change: Callable[[str], str]) -> Any:
    """A copy of the schema with its patterns changed."""
    places = _places_of_patterns(schema)
    written = {pattern: change(pattern) for place in places for pattern in _patterns(place)}
    return rebuild(schema, functools.partial(_rewrite_keywords, written))


def _rewrite_keywords(written: Mapping[str, str], schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(pattern := schema.get("pattern"), str):
        schema["pattern"] = written.get(pattern, pattern)
    if isinstance(named := schema.get("patternProperties"), dict):
        schema["patternProperties"] = {written.get(pattern, pattern): value for pattern, value in named.items()}
    if _refers_through_pattern(schema):
        schema["$ref"] = _rewrite_reference(written, schema["$ref"])
    return schema


def _rewrite_reference(written: Mapping[str, str], reference: str) -> str:
    """The same reference where it leads through a pattern; RFC 6901, section 6."""
    document, _, pointer = reference.partition("#")
    steps = pointer.split("/")
    for place, before in enumerate(steps[:-1], 1):
        if before == "patternProperties":
            pattern = unquote(steps[place]).replace("~1", "/").replace("~0", "~")
            steps[place] = quote(written.get(pattern, pattern).replace("~", "~0").replace("/", "~1"), safe="~")
    return f"{document}#{'/'.join(steps)}"


@functools.lru_cache(maxsize=1024)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a string matches the pattern somewhere; nothing matches what is no pattern."""
    try:
        return jsonschema_rs.Draft202012Validator({"pattern": translate(pattern)}, offline=True).is_valid
    except NotAPatternError:
        return _matches_nothing
    except ValueError:
        # beyond the engine, or too large for it
        return ecma_matcher(pattern)


def _matches_nothing(_text: str) -> bool:
    return False


@functools.lru_cache(maxsize=1024)
def ecma_matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a string matches by an engine of ECMA-262, which backtracks without a limit."""
    import regress

    read, written = read_pattern(pattern), pattern
    # a group that is still open has captured nothing; it takes what the group held in an attempt that it gave up
    changes = dict.fromkeys(read.references_to_open_groups, "(?:)")
    if len(changes) == len(_references(read.tree)):
        # it does not always go back into a lazy quantifier there; a greedy one finds as much if nothing is referred to
        changes |= dict.fromkeys(read.counted_lazy_marks, "")
    for (start, end), change in sorted(changes.items(), reverse=True):
        written = written[:start] + change + written[end:]
    # it takes `\\u{61}` for a code point even without the flag, where that is the letter u 61 times
    if not read.unicode:
        written = _BRACED.sub(lambda escape: escape[1] or escape[0], written)
    # it does not step over an optional half of a surrogate pair, unless that stands in a class
    compiled = regress.Regex(_HALVES.sub(_half_in_class, written), "u" if read.unicode else "")
    return lambda text: compiled.find(text) is not None


def _half_in_class(found: re.Match[str]) -> str:
    halves: str | None = found[1]
    return f"[{halves}]" if halves is not None and len(halves) == len(r"\uD800") else found[0]
