"""
Adapts a schema to a subset of JSON Schema, place by place.

At each place three steps follow each other. `flattening` lays all subschemas of the instance side by side, so that
closing an object never sets one against another. `constraints` combines what they state, keyword by keyword.
`values`, `arrays` and `objects` write the keywords of each type that the subset takes; for the subschemas inside,
`objects` and `arrays` call `Narrowing.place` again.

No keyword of the result admits more when one of its subschemas admits less (there is no `not`, no `if`, no `oneOf`),
so it is enough that each place by itself admits no more than the original.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.adaptation.arrays import array_keywords
from pytest_jsbench.adaptation.changes import Adapted, Blocked, Contradiction, Inexpressible, Ledger
from pytest_jsbench.adaptation.constraints import Constraints, Context
from pytest_jsbench.adaptation.document import SchemaDocument, SchemaPart, canonical, outline
from pytest_jsbench.adaptation.flattening import flatten
from pytest_jsbench.adaptation.limits import DEFINITIONS, Endings, excess, referred, required_circle
from pytest_jsbench.adaptation.objects import object_keywords
from pytest_jsbench.adaptation.values import listed_values, number_keywords, string_keywords
from pytest_jsbench.schemas.keywords import APPLICATORS, BY_KIND, KEYWORDS
from pytest_jsbench.schemas.walking import REFERENCES

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.changes import Mode
    from pytest_jsbench.adaptation.constraints import Node
    from pytest_jsbench.adaptation.document import Path
    from pytest_jsbench.adaptation.flattening import Conjunction
    from pytest_jsbench.adaptation.subsets import Subset
    from pytest_jsbench.core.cases import Schema

#: the most alternatives of one place, after all choices were combined
_MOST_ALTERNATIVES = 32
_DEEPEST = 60
_MOST_PLACES = 8_000
_SCALARS = ("string", "number", "boolean", "null")
_TAKEN_APART = APPLICATORS | REFERENCES


class Narrowing:
    """One pass over the schema; `adapt` makes one for each attempt and drops it after."""

    def __init__(self, document: SchemaDocument, subset: Subset, ledger: Ledger, omitted: frozenset[Path]) -> None:
        self.context = Context(subset=subset, document=document, ledger=ledger, place=self.place, omitted=omitted)
        self._document, self._subset, self._ledger = document, subset, ledger
        #: the adapted definitions, by place: `$defs/name`
        self.definitions: dict[str, Node] = {}
        self._names: dict[Path, str] = {(): ""}
        self._open: list[Path] = [()]
        self._recursed: set[Path] = set()
        self._depth = 0
        self._places = 0

    def root(self) -> Node:
        """The whole schema, without its definitions."""
        root = SchemaPart(schema=self._document.root, path=())
        if not self._subset.object_root:
            return self.place((root,), ())
        kinds = outline(self._document, root).kinds
        if kinds and "object" not in kinds:
            self._ledger.refuse("type", (), "the root has to be an object")
        if tuple(kinds or ()) != ("object",):
            self._ledger.note("tightened", "type", (), "the root is an object")
        return self._conjunction((root, SchemaPart(schema={"type": "object"}, path=())), (), only_one=True)

    def place(self, parts: tuple[SchemaPart, ...], path: Path) -> Node:
        """The adapted schema of all parts together; Contradiction where nothing conforms."""
        asking = tuple(part for part in parts if part.schema is not True)
        self._depth += 1
        try:
            if len(asking) == 1 and self._document.only_refers(asking[0].schema):
                return self._reference(asking[0])
            return self._conjunction(asking, path)
        finally:
            self._depth -= 1

    def _reference(self, part: SchemaPart) -> Node:
        target = self._document.resolve(part, part.schema["$ref"])
        if target is None or isinstance(target.schema, bool):
            return self._conjunction((part,), part.path)
        if target.path in self._open and self._subset.recursion == "none":
            self._ledger.give_up("$ref", part.path, "recursion is not taken")
            return self._conjunction((), part.path)
        if target.path in self._open:
            self._recursed.add(target.path)
        if target.path not in self._names:
            self._define(target)
        siblings = self._beside(part)
        said = f"#/{self._names[target.path]}" if target.path else "#"
        if said != part.schema["$ref"]:
            self._ledger.note("rewritten", "$ref", part.path, said)
        return {"$ref": said, **siblings}

    def _beside(self, part: SchemaPart) -> Node:
        """The annotations that the subset takes beside a reference."""
        allowed = {name: value for name, value in part.schema.items() if name in self._subset.reference_siblings}
        for keyword in part.schema:
            if keyword not in allowed and keyword not in ("$ref", "$schema", "$defs", "definitions"):
                self._ledger.note("dropped_annotation", keyword, part.path, "beside $ref, and nothing to validity")
        return allowed

    def _define(self, target: SchemaPart) -> None:
        kept = len(target.path) == 2 and target.path[0] in DEFINITIONS and target.path[0] in self._subset.keywords
        place = target.path[0] if kept else DEFINITIONS[0]
        wanted = f"{place}/{re.sub(r'[^A-Za-z0-9_.-]', '_', target.path[-1]) or 'empty'}"
        taken = self._names.values()
        name = next(one for n in itertools.count(1) if (one := wanted if n == 1 else f"{wanted}_{n}") not in taken)
        self._names[target.path] = name
        self._open.append(target.path)
        try:
            self.definitions[name] = {}
            self.definitions[name] = self.place((target,), target.path)
        except Contradiction:
            if target.path in self._recursed:
                self._ledger.refuse("$ref", target.path, "nothing conforms to this part of a recursive schema")
            del self._names[target.path], self.definitions[name]
            raise
        finally:
            self._open.pop()

    def _conjunction(self, parts: tuple[SchemaPart, ...], path: Path, *, only_one: bool = False) -> Node:
        self._places += 1
        if self._places > _MOST_PLACES or self._depth > _DEEPEST + 1:
            self._ledger.refuse("", path, "too deep or too large once its references and alternatives are written out")
        if len(parts) == 1 and self._stays(parts[0].schema):
            return copy.deepcopy(dict(parts[0].schema))
        flat = flatten(parts, self._document, self._ledger)
        self._limit_choices(flat)
        if not flat.choices:
            return self._say(Constraints(flat.nodes, path))
        base = tuple(
            SchemaPart(schema={k: v for k, v in node.schema.items() if k not in _TAKEN_APART}, path=node.path)
            for node in flat.nodes
        )
        constraints = Constraints(list(base), path)
        bare = not any(KEYWORDS & node.schema.keys() for node in base)
        annotations = constraints.annotations(self._subset, self._ledger)
        asked = () if bare else tuple(_without_annotations(node) for node in base)
        combined = [
            (*asked, *itertools.chain(*one))
            for one in itertools.product(*(choice.alternatives for choice in flat.choices))
        ]
        if asked or len(flat.choices) > 1:
            first = flat.choices[0]
            self._ledger.note("rewritten", first.keyword, first.path, "what stands beside it is said in each of them")
        said = self._alternatives(combined, path, only_one=only_one)
        if len(said) == 1:
            return {**said[0], **({} if "$ref" in said[0] else annotations)}
        if only_one:
            first = flat.choices[0]
            self._ledger.note("tightened", first.keyword, first.path, "the first alternative only: none at the root")
            return {**said[0], **annotations}
        return {"anyOf": said, **annotations}

    def _stays(self, schema: Any) -> bool:
        """Whether the schema has an `allOf` that the provider takes as it is."""
        return isinstance(schema, Mapping) and "allOf" in schema and self._subset.takes(schema)

    def origin(self, reference: str) -> Path:
        """The place in the original of what an adapted reference leads to."""
        return next(path for path, name in self._names.items() if name == reference.removeprefix("#").lstrip("/"))

    def _limit_choices(self, flat: Conjunction) -> None:
        while (count := _product(len(choice.alternatives) for choice in flat.choices)) > _MOST_ALTERNATIVES:
            if len(flat.choices) == 1:
                return
            choice = flat.choices.pop()
            self._ledger.give_up(choice.keyword, choice.path, f"{count} alternatives once written out")

    def _alternatives(self, combined: list[tuple[SchemaPart, ...]], path: Path, *, only_one: bool) -> list[Node]:
        """The alternatives to which something conforms, each once."""
        said: dict[str, Node] = {}
        asked: dict[str, tuple[SchemaPart, ...]] = {}
        for parts in combined:
            # the same twice is said once; a chain of such choices would double with each
            asked.setdefault(canonical([part.schema for part in parts]), parts)
        for parts in asked.values():
            mark = self._ledger.mark()
            try:
                node = self._conjunction(parts, path, only_one=True) if only_one else self.place(parts, path)
            except Contradiction:
                self._ledger.back_to(mark)
                self._ledger.note("rewritten", "", parts[-1].path, "left out: nothing conforms to this alternative")
                continue
            said.setdefault(canonical(node), node)
        if not said:
            raise Contradiction
        return list(said.values())

    def _say(self, constraints: Constraints) -> Node:
        ledger = self._ledger
        annotations = constraints.annotations(self._subset, ledger)
        kinds = constraints.kinds(ledger)
        values = constraints.values(ledger)
        if values is not None:
            return _joined(listed_values(constraints, values, kinds, self.context), annotations)
        if kinds is None:
            kinds = constraints.constrained_kinds()
            if not kinds and not self._subset.typed:
                return annotations
            note = "the types that the other keywords are about" if kinds else "a value without parts"
            kinds = kinds or _SCALARS
            ledger.note("tightened", "type", constraints.path, note)
        elif any(declared not in (list(kinds), *kinds[:1]) for declared, _ in constraints.stated("type")[:1]):
            ledger.note("rewritten", "type", constraints.path, "the types that all of them allow")
        self._note_vacuous(constraints, kinds)
        bodies = self._bodies(constraints, kinds)
        return _joined(self._typed(constraints, bodies), annotations)

    def _note_vacuous(self, constraints: Constraints, kinds: tuple[str, ...]) -> None:
        for kind, keywords in BY_KIND.items():
            if kind in kinds or (kind == "number" and "integer" in kinds):
                continue
            for node in constraints.nodes:
                for keyword in sorted(keywords & node.schema.keys()):
                    self._ledger.note("rewritten", keyword, node.path, f"holds for all that is no {kind}")

    def _bodies(self, constraints: Constraints, kinds: tuple[str, ...]) -> list[tuple[str, Node]]:
        """Each type to which something conforms, with its keywords."""
        bodies: list[tuple[str, Node]] = []
        for kind in kinds:
            mark = self._ledger.mark()
            try:
                bodies.append(self._body(constraints, kind))
            except Contradiction:
                self._ledger.back_to(mark)
                self._ledger.note("rewritten", "type", constraints.path, f"no {kind} conforms")
        if not bodies:
            raise Contradiction
        return bodies

    def _body(self, constraints: Constraints, kind: str) -> tuple[str, Node]:
        if kind == "object":
            return kind, object_keywords(constraints, self.context)
        if kind == "array":
            return kind, array_keywords(constraints, self.context)
        if kind == "string":
            return kind, string_keywords(constraints, self.context)
        if kind in ("number", "integer"):
            return number_keywords(constraints, self.context, whole=kind == "integer")
        return kind, {}

    def _typed(self, constraints: Constraints, bodies: list[tuple[str, Node]]) -> list[Node]:
        kinds = [kind for kind, _ in bodies]
        listed = any(isinstance(value, list) for value, _ in constraints.stated("type")[:1])
        if len(kinds) == 1:
            return [{"type": kinds if listed else kinds[0], **bodies[0][1]}]
        together = self._subset.type_lists == "any" or (len(kinds) == 2 and "null" in kinds)
        if together and not any("enum" in body for _, body in bodies):
            return [{"type": kinds, **{name: value for _, body in bodies for name, value in body.items()}}]
        self._ledger.note("rewritten", "type", constraints.where("type"), "one alternative for each type")
        return [{"type": kind, **body} for kind, body in bodies]


def _joined(said: list[Node], annotations: Node) -> Node:
    return {**said[0], **annotations} if len(said) == 1 else {"anyOf": said, **annotations}


def _without_annotations(part: SchemaPart) -> SchemaPart:
    return SchemaPart(schema={k: v for k, v in part.schema.items() if k in KEYWORDS}, path=part.path)


def _product(sizes: Any) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def adapt(schema: Schema, subset: Subset, mode: Mode) -> Adapted | Inexpressible:
    """Adapt the schema to the subset; the result lists the changes, or names the first obstacle."""
    try:
        return _adapt(schema, subset, mode)
    except Blocked as blocked:
        return blocked.found
    except Contradiction:
        return Inexpressible(keyword="", path="", message="nothing that the provider could be asked for conforms")


def _adapt(schema: Schema, subset: Subset, mode: Mode) -> Adapted:
    adapted, ledger = _finite(schema, subset, mode)
    exceeded = list(excess(adapted, subset.limits))
    if any(keyword == "required" for keyword, _, _ in exceeded) and not subset.all_required:
        # too many are optional: require them all
        adapted, ledger = _finite(schema, replace(subset, all_required=True), mode)
        exceeded = list(excess(adapted, subset.limits))
    for keyword, count, limit in exceeded:
        ledger.refuse(keyword, (), f"{count}, {limit}")
    if not ledger.changes() and adapted != schema:
        ledger.note("rewritten", "", (), "the same in other words")
    foretold = tuple(f"likely too complex: {count}" for _, count, _ in excess(adapted, subset.likely))
    return Adapted(schema=adapted, changes=ledger.changes(), foretold=foretold)


def _finite(schema: Schema, subset: Subset, mode: Mode) -> tuple[Node, Ledger]:
    """Adapt the schema, and leave out properties that have no finite instance once they are required."""
    omitted: frozenset[Path] = frozenset()
    while True:
        ledger = Ledger(mode)
        narrowing = Narrowing(SchemaDocument(schema), subset, ledger, omitted)
        root = narrowing.root()
        endings = Endings(root, narrowing.definitions)
        endless = {path for node, path in narrowing.context.made_required if not endings.ends(node)}
        if endless <= omitted:
            break
        omitted |= endless
    if not endings.root_ends:
        ledger.refuse("$ref", (), "every answer would have to go on for ever")
    circle = required_circle(root, narrowing.definitions) if subset.recursion == "optional" else None
    if circle is not None and mode == "relax":
        return _finite(schema, replace(subset, recursion="none"), mode)
    if circle is not None:
        message = "it leads back to itself without a property that may be left out"
        ledger.refuse("$ref", narrowing.origin(circle), message)
    head = {}
    if isinstance(schema, Mapping) and "$schema" in schema:
        if "$schema" in subset.keywords:
            head = {"$schema": schema["$schema"]}
        else:
            ledger.note("dropped_annotation", "$schema", (), "says nothing about validity")
    definitions = referred(root, narrowing.definitions)
    tail: Node = {}
    for place, node in definitions.items():
        keyword, _, name = place.partition("/")
        tail.setdefault(keyword, {})[name] = node
    return {**head, **root, **tail}, ledger
