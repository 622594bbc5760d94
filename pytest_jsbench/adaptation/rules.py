"""
Collect the constraints on one location: all subschemas that apply to it, and their combined requirements.

A reference is replaced by its target, and the branches of `allOf` are added to the other subschemas. The result
consists of nodes and choices: an instance must conform to all nodes, and to one alternative of each choice (`anyOf`,
`oneOf`, `if`).
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from pytest_jsbench.adaptation.adapter import Contradiction
from pytest_jsbench.adaptation.always_true import always_true_keywords
from pytest_jsbench.adaptation.document import KINDS, SchemaPart, canonical, disjoint, names_in, outline
from pytest_jsbench.core.json_values import as_mapping
from pytest_jsbench.schemas.keywords import ANNOTATIONS, KEYWORDS

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.adapter import ChangeKind, Ledger
    from pytest_jsbench.adaptation.document import Outline, Path, SchemaDocument
    from pytest_jsbench.adaptation.subsets import Subset

#: Maximum number of subschemas for one instance; a larger number is treated as a cycle of references.
_MOST_PARTS = 400

Node = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Keyword with alternatives; an instance must conform to all subschemas of at least one alternative."""

    keyword: str
    path: Path
    alternatives: tuple[tuple[SchemaPart, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Values that all steps of one adaptation share."""

    subset: Subset
    document: SchemaDocument
    ledger: Ledger
    #: Function that merges several subschemas, which apply to the same instance, into one adapted schema.
    place: Callable[[tuple[SchemaPart, ...], Path], Node]
    #: Places of properties to omit, since they would have no finite value.
    omitted: frozenset[Path]
    #: Adapted schema and place of each optional property that was made required.
    made_required: list[tuple[Node, Path]] = field(default_factory=list)


class Rules:
    """Combined constraints on an instance: nodes, which all apply, and choices."""

    def __init__(self, nodes: list[SchemaPart], path: Path, context: Context) -> None:
        self.nodes = nodes
        self.choices: list[Choice] = []
        #: Keywords of the original that were removed because they accept every instance.
        self.always_true: set[str] = set()
        #: Place in the original schema that changes are reported for by default.
        self.path = nodes[0].path if nodes else path
        self.context = context
        self.subset = context.subset
        self.document = context.document
        self.ledger = context.ledger

    def has_keyword(self, keyword: str) -> bool:
        """Return whether the subset has the keyword."""
        return keyword in self.subset.keywords

    def values_of(self, keyword: str) -> list[tuple[Any, Path]]:
        """Return each value of the keyword, with the place of its node."""
        return [(node.schema[keyword], node.path) for node in self.nodes if keyword in node.schema]

    def _where(self, keyword: str) -> Path:
        """Return the place of the first node with the keyword, or of the first node if no node has the keyword."""
        return next((path for _, path in self.values_of(keyword)), self.path)

    def note(self, kind: ChangeKind, keyword: str, note: str, *, path: Path | None = None) -> None:
        """Record a change of the keyword, at its first occurrence."""
        self.ledger.note(kind, keyword, self._where(keyword) if path is None else path, note)

    def give_up(self, keyword: str, message: str) -> None:
        """Report a keyword that the subset lacks, at its first occurrence."""
        self.ledger.give_up(keyword, self._where(keyword), message)

    def refuse(self, keyword: str, message: str) -> NoReturn:
        """End the adaptation because of the keyword, at its first occurrence."""
        self.ledger.refuse(keyword, self._where(keyword), message)

    def numbers(self, keyword: str) -> list[int | float]:
        """Return the values of the keyword, which must be finite numbers; end the adaptation otherwise."""
        values = self.values_of(keyword)
        for value, path in values:
            if isinstance(value, bool) or not isinstance(value, int | float):
                self.ledger.refuse(keyword, path, "not a number")
            if not abs(value) <= sys.float_info.max:  # integers in JSON are unbounded
                self.ledger.refuse(keyword, path, "not a finite number of double precision")
        return [value for value, _ in values]

    def kinds(self) -> tuple[str, ...] | None:
        """Return the types that all nodes allow, in the order of the first node; None for any type."""
        kinds: tuple[str, ...] | None = None
        for declared, path in self.values_of("type"):
            listed = [declared] if isinstance(declared, str) else declared
            if not isinstance(listed, list) or not listed or not all(kind in KINDS for kind in listed):
                self.ledger.refuse("type", path, "not a type of JSON Schema")
            kinds = tuple(dict.fromkeys(listed)) if kinds is None else _common_kinds(kinds, listed)
        if kinds is not None and "number" in kinds:
            kinds = tuple(kind for kind in kinds if kind != "integer")
        if kinds == ():
            raise Contradiction
        return kinds

    def values(self) -> list[Any] | None:
        """Return the values that are in every `enum` and `const`; None if no node has either keyword."""
        lists: list[list[Any]] = [[value] for value, _ in self.values_of("const")]
        for listed, path in self.values_of("enum"):
            if not isinstance(listed, list):
                self.ledger.refuse("enum", path, "not a list")
            lists.append(listed)
        if not lists:
            return None
        common = set.intersection(*({canonical(value) for value in listed} for listed in lists))
        return [value for value in lists[0] if canonical(value) in common]

    def annotations(self) -> Node:
        """Return the annotations that the provider accepts; record the others as dropped."""
        kept: Node = {}
        for node in self.nodes:
            for keyword, value in node.schema.items():
                if keyword in KEYWORDS or keyword in ("$defs", "definitions", "$schema"):
                    continue
                if self.has_keyword(keyword) and keyword in ANNOTATIONS and keyword not in kept:
                    kept[keyword] = copy.deepcopy(value)
                else:
                    self.ledger.note("dropped_annotation", keyword, node.path, "does not affect validity")
        return kept


def _common_kinds(kinds: tuple[str, ...], others: list[str]) -> tuple[str, ...]:
    common = [kind for kind in kinds if kind in others or (kind == "integer" and "number" in others)]
    if "number" in kinds and "integer" in others and "number" not in others:
        common.append("integer")
    return tuple(dict.fromkeys(common))


def flatten(parts: Iterable[SchemaPart], path: Path, context: Context) -> Rules:
    """Return the combined rules of the parts; an instance that conforms to the rules conforms to all parts."""
    return _Flattening(context).run(list(parts), path)


class _Flattening:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._document = context.document
        self._ledger = context.ledger
        self._nodes: list[SchemaPart] = []
        self._choices: list[Choice] = []
        self._pending: list[SchemaPart] = []
        self._exclusive: list[SchemaPart] = []
        self._added_dependencies: set[Path] = set()
        self._always_true: set[str] = set()

    def run(self, parts: list[SchemaPart], path: Path) -> Rules:
        self._pending = parts
        seen = 0
        while self._pending or self._add_dependencies() or self._exclusive:
            if not self._pending:
                exclusive = self._exclusive.pop(0)
                self._add_choice("oneOf", exclusive, self._exclusive_alternatives(exclusive))
                continue
            part = self._pending.pop(0)
            seen += 1
            if seen > _MOST_PARTS:
                self._ledger.refuse("$ref", part.path, "the references that apply here form a cycle")
            self._add(part)
        rules = Rules(self._nodes, path, self._context)
        rules.choices = self._choices
        rules.always_true = self._always_true
        return rules

    def _add(self, part: SchemaPart) -> None:
        schema = part.schema
        if schema is True:
            return
        if schema is False:
            raise Contradiction
        if not isinstance(schema, Mapping):
            self._ledger.refuse("", part.path, "not a schema")
        if "$ref" in schema:
            self._add_target(part)
            if self._document.dialect.lone_references:
                annotations = {name: value for name, value in schema.items() if name not in KEYWORDS}
                self._nodes.append(SchemaPart(schema=annotations, path=part.path))
                return
        for keyword in ("$dynamicRef", "$recursiveRef"):
            if keyword in schema:
                self._ledger.give_up(keyword, part.path, "the target of the reference depends on the dynamic scope")
        self._nodes.append(self._without_always_true(part))
        if "allOf" in schema:
            self._ledger.note("rewritten", "allOf", part.path, "merged into one schema")
            self._pending += self._branches(part, "allOf")
        if "anyOf" in schema:
            self._add_choice("anyOf", part, [(branch,) for branch in self._branches(part, "anyOf")])
        if "oneOf" in schema:
            self._exclusive.append(part)
        if "not" in schema:
            self._add_negation(part.below("not"), part.path)
        if "if" in schema:
            self._add_condition(part)

    def _without_always_true(self, part: SchemaPart) -> SchemaPart:
        """Remove the keywords that the subset lacks and that accept every instance."""
        lacking = part.schema.keys() & KEYWORDS - self._context.subset.keywords
        if not lacking:
            return part
        dropped = [keyword for keyword in always_true_keywords(part, self._document) if keyword in lacking]
        for keyword in dropped:
            self._ledger.note("rewritten", keyword, part.path, "removed, as it accepts every value")
        self._always_true.update(dropped)
        kept = {keyword: value for keyword, value in part.schema.items() if keyword not in dropped}
        return SchemaPart(schema=kept, path=part.path)

    def _add_target(self, part: SchemaPart) -> None:
        target = self._document.resolve(part, part.schema["$ref"])
        if target is None:
            self._ledger.give_up(
                "$ref", part.path, f"reference {part.schema['$ref']!r} cannot be resolved in the schema"
            )
            return
        self._ledger.note("rewritten", "$ref", part.path, "replaced by the referenced schema")
        self._pending.append(target)

    def _branches(self, part: SchemaPart, keyword: str) -> list[SchemaPart]:
        branches = part.schema[keyword]
        if not isinstance(branches, list) or not branches:
            self._ledger.refuse(keyword, part.path, "not a list of schemas")
        return [part.below(keyword, str(number)) for number in range(len(branches))]

    def _add_choice(self, keyword: str, part: SchemaPart, alternatives: list[tuple[SchemaPart, ...]]) -> None:
        if len(alternatives) == 1:
            self._ledger.note("rewritten", keyword, part.path, "replaced by its only alternative")
            self._pending += alternatives[0]
            return
        self._choices.append(Choice(keyword=keyword, path=part.path, alternatives=tuple(alternatives)))

    def _exclusive_alternatives(self, part: SchemaPart) -> list[tuple[SchemaPart, ...]]:
        """Return the branches of a `oneOf`, each with guards so that no instance conforms to two branches."""
        branches = self._branches(part, "oneOf")
        outlines = [outline(self._document, branch) for branch in branches]
        required = {name for node in self._nodes for name in names_in(node.schema.get("required"))}
        alternatives = []
        for branch, own in zip(branches, outlines, strict=True):
            guards: dict[str, SchemaPart] = {}
            for number, other in enumerate(outlines):
                if other is own or disjoint(own, other):
                    continue
                tag = _find_distinguishing_property(own, other)
                if tag is not None:
                    if tag in own.required and frozenset({"object"}) in (own.kinds, other.kinds):
                        continue
                    tagged = {"type": "object", "required": [tag]}
                    guards[f"with {tag}"] = SchemaPart(schema=tagged, path=branch.path)
                    note = f"alternative {branch.path[-1]} requires property {tag!r}, unlike alternative {number}"
                    self._ledger.note("tightened", "oneOf", part.path, note)
                    continue
                names = sorted(other.required - own.required - required) or sorted(other.required - own.required)
                name = next((name for name in names if f"without {name}" in guards), names[0] if names else None)
                if name is None:
                    message = f"alternatives {branch.path[-1]} and {number} may both be valid"
                    self._ledger.give_up("oneOf", part.path, message)
                    continue
                guards[f"without {name}"] = _object_without(name, branch.path)
                note = f"alternative {branch.path[-1]} forbids property {name!r}, which alternative {number} requires"
                self._ledger.note("tightened", "oneOf", part.path, note)
            alternatives.append((branch, *guards.values()))
        self._ledger.note(
            "rewritten", "oneOf", part.path, "replaced by anyOf, as no two alternatives can both be valid"
        )
        return alternatives

    def _add_negation(self, negated: SchemaPart, path: Path) -> None:
        """Add the negation of the subschema, if the subset can express it."""
        schema = negated.schema
        asserted = {keyword for keyword in schema if keyword in KEYWORDS} if isinstance(schema, Mapping) else set()
        if schema is True or (isinstance(schema, Mapping) and not asserted):
            raise Contradiction
        if schema is False:
            return
        if asserted == {"anyOf"}:
            for branch in self._branches(negated, "anyOf"):
                self._add_negation(branch, path)
            return
        names = names_in(schema["required"]) if asserted == {"required"} else []
        if names:
            self._ledger.note(
                "tightened",
                "not",
                path,
                f"replaced by an object without property {' or without '.join(map(repr, names))}",
            )
            guards = [(_object_without(name, negated.path),) for name in names]
            self._add_choice("not", negated, list(guards))
            return
        kinds = _names_of_types(schema["type"]) if asserted == {"type"} else []
        if kinds:
            excluded = set(kinds)
            if "number" in kinds:
                excluded.add("integer")
            elif "integer" in kinds:
                excluded.add("number")
            others = [kind for kind in KINDS if kind not in excluded]
            self._ledger.note("tightened", "not", path, "replaced by the other types")
            self._pending.append(SchemaPart(schema={"type": others}, path=negated.path))
            return
        self._ledger.give_up("not", path, "the subset cannot express this negation")

    def _add_condition(self, part: SchemaPart) -> None:
        """
        Replace `if` by two alternatives: `if` with `then`, and `then` with `else`. Each alternative accepts only
        instances that the condition accepts.
        """
        then = (part.below("then"),) if "then" in part.schema else ()
        otherwise = (part.below("else"),) if "else" in part.schema else ()
        if not then and not otherwise:
            return
        self._ledger.note("tightened", "if", part.path, "replaced by stricter alternatives without a condition")
        if not otherwise:
            self._pending += then
        else:
            self._add_choice("if", part, [(part.below("if"), *then), (*then, *otherwise)])

    def _add_dependencies(self) -> bool:
        """Add the schemas that depend on named properties; return whether subschemas are pending."""
        names = {name for node in self._nodes for name in as_mapping(node.schema.get("properties"))}
        for node in self._nodes:
            for keyword in ("dependentSchemas", "dependencies"):
                for name, value in as_mapping(node.schema.get(keyword)).items():
                    path = (*node.path, keyword, name)
                    if name in names and not isinstance(value, list) and path not in self._added_dependencies:
                        self._added_dependencies.add(path)
                        note = f"applied whether property {name!r} is present or not"
                        self._ledger.note("tightened", keyword, node.path, note)
                        self._pending.append(node.below(keyword, name))
        return bool(self._pending)


def _names_of_types(value: Any) -> list[str]:
    return [value] if value in KINDS else names_in(value)


def _find_distinguishing_property(own: Outline, other: Outline) -> str | None:
    """Return a property whose possible values in the two outlines are disjoint; None without such a property."""
    both = own.tags.keys() & other.tags.keys()
    return min((name for name in both if not own.tags[name] & other.tags[name]), default=None)


def _object_without(name: str, path: Path) -> SchemaPart:
    return SchemaPart(schema={"type": "object", "properties": {name: False}}, path=path)
