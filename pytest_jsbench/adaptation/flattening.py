"""
All subschemas that apply at one place, laid side by side without references, `allOf`, `not` and `if`.

A reference is replaced by its target, and the branches of `allOf` join the others. What is left are the nodes, which
all hold, and the choices (`anyOf`, `oneOf`, `if`), of each of which one alternative holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_jsbench.adaptation.changes import Contradiction
from pytest_jsbench.adaptation.document import KINDS, SchemaPart, disjoint, outline
from pytest_jsbench.schemas.keywords import KEYWORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_jsbench.adaptation.changes import Ledger
    from pytest_jsbench.adaptation.document import Outline, Path, SchemaDocument

#: the most subschemas of one instance; more come from a circle of references
_MOST_PARTS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A keyword with alternatives, each a conjunction of subschemas; one of them must hold."""

    keyword: str
    path: Path
    alternatives: tuple[tuple[SchemaPart, ...], ...]


@dataclass(slots=True, kw_only=True)
class Conjunction:
    """The nodes and choices to which an instance must conform, all of them."""

    nodes: list[SchemaPart] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)


def flatten(parts: Iterable[SchemaPart], document: SchemaDocument, ledger: Ledger) -> Conjunction:
    """Flatten the parts; the result admits no more than they admit together."""
    return _Flattening(document, ledger).run(list(parts))


class _Flattening:
    def __init__(self, document: SchemaDocument, ledger: Ledger) -> None:
        self._document = document
        self._ledger = ledger
        self._result = Conjunction()
        self._pending: list[SchemaPart] = []
        self._exclusive: list[SchemaPart] = []
        self._depended: set[Path] = set()

    def run(self, parts: list[SchemaPart]) -> Conjunction:
        self._pending = parts
        seen = 0
        while self._pending or self._depend() or self._exclusive:
            if not self._pending:
                exclusive = self._exclusive.pop(0)
                self._choose("oneOf", exclusive, self._one_of(exclusive))
                continue
            part = self._pending.pop(0)
            seen += 1
            if seen > _MOST_PARTS:
                self._ledger.refuse("$ref", part.path, "the references that apply here go in a circle")
            self._enter(part)
        return self._result

    def _enter(self, part: SchemaPart) -> None:
        schema = part.schema
        if schema is True:
            return
        if schema is False:
            raise Contradiction
        if not isinstance(schema, Mapping):
            self._ledger.refuse("", part.path, "not a schema")
        if "$ref" in schema:
            self._follow(part)
            if self._document.lone_references:
                return
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                self._ledger.give_up(keyword, part.path, "where it leads depends on the way there")
        self._result.nodes.append(part)
        if "allOf" in schema:
            self._ledger.note("rewritten", "allOf", part.path, "merged into one schema")
            self._pending += self._branches(part, "allOf")
        if "anyOf" in schema:
            self._choose("anyOf", part, [(branch,) for branch in self._branches(part, "anyOf")])
        if "oneOf" in schema:
            self._exclusive.append(part)
        if "not" in schema:
            self._negate(part.below("not"), part.path)
        if "if" in schema:
            self._condition(part)

    def _follow(self, part: SchemaPart) -> None:
        target = self._document.resolve(part, part.schema["$ref"])
        if target is None:
            self._ledger.give_up("$ref", part.path, f"{part.schema['$ref']!r} leads to no certain place of the schema")
            return
        self._ledger.note("rewritten", "$ref", part.path, "the schema referred to stands in its place")
        self._pending.append(target)

    def _branches(self, part: SchemaPart, keyword: str) -> list[SchemaPart]:
        branches = part.schema[keyword]
        if not isinstance(branches, list) or not branches:
            self._ledger.refuse(keyword, part.path, "not a list of schemas")
        return [part.below(keyword, str(number)) for number in range(len(branches))]

    def _choose(self, keyword: str, part: SchemaPart, alternatives: list[tuple[SchemaPart, ...]]) -> None:
        if len(alternatives) == 1:
            self._ledger.note("rewritten", keyword, part.path, "the only alternative stands in its place")
            self._pending += alternatives[0]
            return
        self._result.choices.append(Choice(keyword=keyword, path=part.path, alternatives=tuple(alternatives)))

    def _one_of(self, part: SchemaPart) -> list[tuple[SchemaPart, ...]]:
        """The alternatives, each with guards so that no other alternative holds as well."""
        branches = self._branches(part, "oneOf")
        outlines = [outline(self._document, branch) for branch in branches]
        known = {name for node in self._result.nodes for name in _names(node.schema.get("required"))}
        alternatives = []
        for branch, own in zip(branches, outlines, strict=True):
            guards: dict[str, SchemaPart] = {}
            for number, other in enumerate(outlines):
                if other is own or disjoint(own, other):
                    continue
                if (tag := _telling(own, other)) is not None:
                    if tag in own.required and frozenset({"object"}) in (own.kinds, other.kinds):
                        continue
                    guards[f"with {tag}"] = _with(tag, branch.path)
                    note = f"alternative {branch.path[-1]} requires {tag!r}, which tells it from alternative {number}"
                    self._ledger.note("tightened", "oneOf", part.path, note)
                    continue
                names = sorted(other.required - own.required - known) or sorted(other.required - own.required)
                name = next((name for name in names if f"without {name}" in guards), names[0] if names else None)
                if name is None:
                    message = f"alternatives {branch.path[-1]} and {number} may both hold"
                    self._ledger.give_up("oneOf", part.path, message)
                    continue
                guards[f"without {name}"] = _without(name, branch.path)
                note = f"alternative {branch.path[-1]} without {name!r}, which alternative {number} requires"
                self._ledger.note("tightened", "oneOf", part.path, note)
            alternatives.append((branch, *guards.values()))
        self._ledger.note("rewritten", "oneOf", part.path, "anyOf, as no two alternatives can both hold")
        return alternatives

    def _negate(self, negated: SchemaPart, path: Path) -> None:
        """Add the opposite of the subschema, where the subset can express it."""
        schema = negated.schema
        said = {keyword for keyword in schema if keyword in KEYWORDS} if isinstance(schema, Mapping) else set()
        if schema is True or (isinstance(schema, Mapping) and not said):
            raise Contradiction
        if schema is False:
            return
        if said == {"anyOf"}:
            for branch in self._branches(negated, "anyOf"):
                self._negate(branch, path)
        elif said == {"required"} and (names := _names(schema["required"])):
            self._ledger.note("tightened", "not", path, f"an object without {', '.join(map(repr, names))}")
            guards = [(_without(name, negated.path),) for name in names]
            self._choose("not", negated, list(guards))
        elif said == {"type"} and (listed := [schema["type"]] if schema["type"] in KINDS else _names(schema["type"])):
            refused = {*listed, "integer"} if "number" in listed else {*listed, *(["number"] * ("integer" in listed))}
            others = [kind for kind in KINDS if kind not in refused]
            self._ledger.note("tightened", "not", path, "the other types")
            self._pending.append(SchemaPart(schema={"type": others}, path=negated.path))
        else:
            self._ledger.give_up("not", path, "there is no way to say what an answer is not")

    def _condition(self, part: SchemaPart) -> None:
        """Add a choice of `if` with `then`, or `then` with `else`: each satisfies the condition."""
        then = (part.below("then"),) if "then" in part.schema else ()
        otherwise = (part.below("else"),) if "else" in part.schema else ()
        if not then and not otherwise:
            return
        self._ledger.note("tightened", "if", part.path, "what satisfies it whether `if` holds or not")
        if not otherwise:
            self._pending += then
        else:
            self._choose("if", part, [(part.below("if"), *then), (*then, *otherwise)])

    def _depend(self) -> bool:
        """Add the schemas that depend on properties named here; returns whether any is pending."""
        names = {name for node in self._result.nodes for name in _mapping(node.schema.get("properties"))}
        for node in self._result.nodes:
            for keyword in ("dependentSchemas", "dependencies"):
                for name, value in _mapping(node.schema.get(keyword)).items():
                    path = (*node.path, keyword, name)
                    if name in names and not isinstance(value, list) and path not in self._depended:
                        self._depended.add(path)
                        self._ledger.note("tightened", keyword, node.path, f"holds whether {name!r} is there or not")
                        self._pending.append(node.below(keyword, name))
        return bool(self._pending)


def _telling(own: Outline, other: Outline) -> str | None:
    """A property that has other values in the two, so that an object that has it conforms to one of them only."""
    both = own.tags.keys() & other.tags.keys()
    return min((name for name in both if not own.tags[name] & other.tags[name]), default=None)


def _with(name: str, path: Path) -> SchemaPart:
    return SchemaPart(schema={"type": "object", "required": [name]}, path=path)


def _without(name: str, path: Path) -> SchemaPart:
    return SchemaPart(schema={"type": "object", "properties": {name: False}}, path=path)


def _names(value: Any) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
