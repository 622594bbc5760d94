"""
Adapt a schema to a subset of JSON Schema, one location at a time.

Each location is adapted in two steps. First, `rules` collects all subschemas that apply to the same instance, and
combines their requirements keyword by keyword; otherwise, two closed objects could contradict each other. Then
`scalars` and `containers` write the supported keywords of each type; for inner subschemas, `containers` calls
`Narrowing.place` again.

Since the result contains no `not`, `if` or `oneOf`, a subschema that accepts fewer instances cannot make the whole
result accept more.
"""

from __future__ import annotations

import copy
import itertools
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pytest_jsbench.adaptation.adapter import Adapted, Blocked, Contradiction, Inexpressible, Ledger
from pytest_jsbench.adaptation.containers import array_keywords, object_keywords
from pytest_jsbench.adaptation.document import KINDS, SchemaDocument, SchemaPart, canonical, outline
from pytest_jsbench.adaptation.rules import Context, Rules, flatten
from pytest_jsbench.adaptation.scalars import list_values_by_type, number_keywords, string_keywords
from pytest_jsbench.adaptation.sizes import excess, walk
from pytest_jsbench.adaptation.subsets import PROFILES, SUBSETS
from pytest_jsbench.schemas.keywords import APPLICATORS, BY_KIND, KEYWORDS, REFERENCES, children
from pytest_jsbench.schemas.references import cycle

if TYPE_CHECKING:
    from pytest_jsbench.adaptation.adapter import Mode
    from pytest_jsbench.adaptation.document import Path
    from pytest_jsbench.adaptation.rules import Node
    from pytest_jsbench.adaptation.subsets import Subset
    from pytest_jsbench.core.cases import Schema

#: Maximum number of alternatives at one location, after all choices are combined.
_MOST_ALTERNATIVES = 32
_DEEPEST = 60
_MOST_PLACES = 8_000
_SCALARS = ("string", "number", "boolean", "null")
_TAKEN_APART = APPLICATORS | REFERENCES
#: Keywords that contain definitions.
_DEFINITIONS = ("$defs", "definitions")
#: Annotations of a reference that are useful to a model.
_DESCRIBING = frozenset({"title", "description", "default"})


class Narrowing:
    """One pass over the schema; `adapt` creates a new object for each pass."""

    def __init__(self, document: SchemaDocument, subset: Subset, ledger: Ledger, omitted: frozenset[Path]) -> None:
        self.context = Context(subset=subset, document=document, ledger=ledger, place=self.place, omitted=omitted)
        self._document = document
        self._subset = subset
        self._ledger = ledger
        #: Adapted definitions by their place, such as `$defs/name`.
        self.definitions: dict[str, Node] = {}
        self._names: dict[Path, str] = {(): ""}
        self._open: list[Path] = [()]
        self._recursed: set[Path] = set()
        self._depth = 0
        self._places = 0

    def root(self) -> Node:
        """Return the adapted schema, but without the definitions that it refers to."""
        root = SchemaPart(schema=self._document.root, path=())
        if not self._subset.object_root:
            return self.place((root,), ())
        kinds = outline(self._document, root).kinds
        if kinds and "object" not in kinds:
            self._ledger.refuse("type", (), "the root must be an object")
        if tuple(kinds or ()) != ("object",):
            self._ledger.note("tightened", "type", (), "restricted the root to objects")
        return self._write_conjunction((root, SchemaPart(schema={"type": "object"}, path=())), (), only_one=True)

    def place(self, parts: tuple[SchemaPart, ...], path: Path) -> Node:
        """Return one adapted schema for all subschemas of an instance; raise Contradiction if no instance is valid."""
        constraining = tuple(part for part in parts if part.schema is not True)
        self._depth += 1
        try:
            if len(constraining) == 1:
                described = self._find_reference(constraining[0])
                if described is not None:
                    return self._write_reference(described, constraining[0])
            return self._write_conjunction(constraining, path)
        finally:
            self._depth -= 1

    def _find_reference(self, part: SchemaPart) -> SchemaPart | None:
        """
        Return the reference if the part consists only of a reference, or of an `anyOf` with one
        reference; otherwise None.
        """
        if self._document.is_only_a_reference(part.schema):
            return part
        if not isinstance(part.schema, Mapping) or part.schema.keys() & KEYWORDS != {"anyOf"}:
            return None
        branches = part.schema["anyOf"]
        if not isinstance(branches, list) or len(branches) != 1:
            return None
        branch = part.below("anyOf", "0")
        return branch if self._document.is_only_a_reference(branch.schema) else None

    def _write_reference(self, part: SchemaPart, described: SchemaPart) -> Node:
        """
        Write the reference in `part`, with the annotations of `described`: the same part, or the
        `anyOf` that contains it.
        """
        target = self._document.resolve(part, part.schema["$ref"])
        if target is None or isinstance(target.schema, bool):
            return self._write_conjunction((described,), described.path)
        if target.path in self._open and self._subset.recursion == "none":
            self._ledger.give_up("$ref", part.path, "recursion is not supported")
            return self._write_conjunction((), part.path)
        if target.path in self._open:
            self._recursed.add(target.path)
        if target.path not in self._names:
            self._define(target)
        siblings = self._annotations(part) | self._annotations(described)
        reference = f"#/{self._names[target.path]}" if target.path else "#"
        if reference != part.schema["$ref"]:
            self._ledger.note("rewritten", "$ref", part.path, reference)
        if siblings.keys() <= self._subset.reference_siblings:
            if described is not part:
                self._ledger.note("rewritten", "anyOf", described.path, "replaced by its only alternative")
            return {"$ref": reference, **siblings}
        if described is part:
            note = "moved into an anyOf, as the subset does not allow these annotations next to $ref"
            self._ledger.note("rewritten", "$ref", part.path, note)
        return {"anyOf": [{"$ref": reference}], **siblings}

    def _annotations(self, part: SchemaPart) -> Node:
        """Return the annotations of a reference that the subset accepts; record the others as dropped."""
        allowed = {name: value for name, value in part.schema.items() if name in _DESCRIBING & self._subset.keywords}
        for keyword in part.schema:
            if keyword not in allowed and keyword not in ("$ref", "anyOf", "$schema", "$defs", "definitions"):
                self._ledger.note("dropped_annotation", keyword, part.path, "does not affect validity")
        return allowed

    def _define(self, target: SchemaPart) -> None:
        kept = len(target.path) == 2 and target.path[0] in _DEFINITIONS and target.path[0] in self._subset.keywords
        place = target.path[0] if kept else _DEFINITIONS[0]
        wanted = f"{place}/{re.sub(r'[^A-Za-z0-9_.-]', '_', target.path[-1]) or 'empty'}"
        taken = self._names.values()
        candidates = itertools.chain([wanted], (f"{wanted}_{number}" for number in itertools.count(2)))
        name = next(candidate for candidate in candidates if candidate not in taken)
        self._names[target.path] = name
        self._open.append(target.path)
        try:
            self.definitions[name] = {}
            self.definitions[name] = self.place((target,), target.path)
        except Contradiction:
            if target.path in self._recursed:
                self._ledger.refuse("$ref", target.path, "no instance is valid for this part of a recursive schema")
            del self._names[target.path], self.definitions[name]
            raise
        finally:
            self._open.pop()

    def _write_conjunction(self, parts: tuple[SchemaPart, ...], path: Path, *, only_one: bool = False) -> Node:
        self._places += 1
        if self._places > _MOST_PLACES or self._depth > _DEEPEST + 1:
            self._ledger.refuse("", path, "too deep or too large after references and alternatives are expanded")
        schema = parts[0].schema if len(parts) == 1 else None
        if isinstance(schema, Mapping) and "allOf" in schema and self._subset.accepts(schema):
            return copy.deepcopy(dict(schema))
        rules = flatten(parts, path, self.context)
        while (count := math.prod(len(choice.alternatives) for choice in rules.choices)) > _MOST_ALTERNATIVES:
            if len(rules.choices) == 1:
                break
            choice = rules.choices.pop()
            self._ledger.give_up(
                choice.keyword,
                choice.path,
                f"expands to {count} alternatives; at most {_MOST_ALTERNATIVES} are supported",
            )
        if not rules.choices:
            return self._write(rules)
        base = [_only_keywords(node, lambda keyword: keyword not in _TAKEN_APART) for node in rules.nodes]
        annotations = Rules(base, path, self.context).annotations()
        bare = not any(KEYWORDS & node.schema.keys() for node in base)
        siblings = () if bare else tuple(_only_keywords(node, KEYWORDS.__contains__) for node in base)
        products = itertools.product(*(choice.alternatives for choice in rules.choices))
        combined = [(*siblings, *itertools.chain(*alternatives)) for alternatives in products]
        first = rules.choices[0]
        if siblings or len(rules.choices) > 1:
            self._ledger.note(
                "rewritten", first.keyword, first.path, "sibling keywords are repeated in each alternative"
            )
        nodes = self._write_alternatives(combined, path, only_one=only_one)
        if len(nodes) == 1 and "$ref" in nodes[0] and annotations:
            return {"anyOf": nodes, **annotations}
        if len(nodes) > 1 and only_one:
            note = "kept only the first alternative, as the root may not have several"
            self._ledger.note("tightened", first.keyword, first.path, note)
        return _any_of(nodes[:1] if only_one else nodes, annotations)

    def origin(self, reference: str) -> Path:
        """Return the path of the subschema in the original schema that an adapted reference leads to."""
        return next(path for path, name in self._names.items() if name == reference.removeprefix("#").lstrip("/"))

    def _write_alternatives(self, combined: list[tuple[SchemaPart, ...]], path: Path, *, only_one: bool) -> list[Node]:
        """Return the distinct alternatives that have a valid instance."""
        nodes: dict[str, Node] = {}
        # write equal alternatives once; otherwise their number would double with each choice in a chain
        distinct: dict[str, tuple[SchemaPart, ...]] = {}
        for parts in combined:
            distinct.setdefault(canonical([part.schema for part in parts]), parts)
        for parts in distinct.values():
            mark = self._ledger.mark()
            try:
                node = self._write_conjunction(parts, path, only_one=True) if only_one else self.place(parts, path)
            except Contradiction:
                self._ledger.rollback(mark)
                self._ledger.note(
                    "rewritten", "", parts[-1].path, "removed this alternative, as no instance is valid for it"
                )
                continue
            nodes.setdefault(canonical(node), node)
        if not nodes:
            raise Contradiction
        return list(nodes.values())

    def _write(self, rules: Rules) -> Node:
        annotations = rules.annotations()
        kinds = rules.kinds()
        values = rules.values()
        if values is not None:
            return _any_of(list_values_by_type(rules, values, kinds), annotations)
        if kinds is None:
            keywords = rules.always_true.union(*(node.schema for node in rules.nodes))
            kinds = tuple(kind for kind in KINDS if keywords & BY_KIND.get(kind, frozenset()))
            if not kinds and not self._subset.typed:
                return annotations
            note = f"restricted to {'the types that the other keywords apply to' if kinds else 'scalar types'}"
            kinds = kinds or _SCALARS
            rules.note("tightened", "type", note, path=rules.path)
        elif any(declared not in (list(kinds), *kinds[:1]) for declared, _ in rules.values_of("type")[:1]):
            rules.note("rewritten", "type", "restricted to the types that all subschemas allow", path=rules.path)
        self._note_ineffective(rules, kinds)
        return _any_of(self._add_types(rules, self._write_bodies(rules, kinds)), annotations)

    def _note_ineffective(self, rules: Rules, kinds: tuple[str, ...]) -> None:
        for kind, keywords in BY_KIND.items():
            if kind in kinds or (kind == "number" and "integer" in kinds):
                continue
            for node in rules.nodes:
                for keyword in sorted(keywords & node.schema.keys()):
                    self._ledger.note("rewritten", keyword, node.path, f"has no effect without the type {kind}")

    def _write_bodies(self, rules: Rules, kinds: tuple[str, ...]) -> list[tuple[str, Node]]:
        """Return each type that a valid instance can have, with the keywords for this type."""
        bodies: list[tuple[str, Node]] = []
        for kind in kinds:
            mark = self._ledger.mark()
            try:
                bodies.append(_write_body(rules, kind))
            except Contradiction:
                self._ledger.rollback(mark)
                rules.note(
                    "rewritten", "type", f"removed type {kind}, as no value of this type is valid", path=rules.path
                )
        if not bodies:
            raise Contradiction
        return bodies

    def _add_types(self, rules: Rules, bodies: list[tuple[str, Node]]) -> list[Node]:
        kinds = [kind for kind, _ in bodies]
        listed = any(isinstance(value, list) for value, _ in rules.values_of("type")[:1])
        if len(kinds) == 1:
            return [{"type": kinds if listed else kinds[0], **bodies[0][1]}]
        as_list = self._subset.type_lists == "any" or (len(kinds) == 2 and "null" in kinds)
        if as_list and not any("enum" in body for _, body in bodies):
            return [{"type": kinds, **{name: value for _, body in bodies for name, value in body.items()}}]
        rules.note("rewritten", "type", "replaced by one alternative for each type")
        return [{"type": kind, **body} for kind, body in bodies]


def _write_body(rules: Rules, kind: str) -> tuple[str, Node]:
    match kind:
        case "object":
            return kind, object_keywords(rules)
        case "array":
            return kind, array_keywords(rules)
        case "string":
            return kind, string_keywords(rules)
        case "number" | "integer":
            return number_keywords(rules, whole=kind == "integer")
        case _:
            return kind, {}


def _any_of(nodes: list[Node], annotations: Node) -> Node:
    return {**nodes[0], **annotations} if len(nodes) == 1 else {"anyOf": nodes, **annotations}


def _only_keywords(part: SchemaPart, kept: Callable[[str], bool]) -> SchemaPart:
    return SchemaPart(schema={k: v for k, v in part.schema.items() if kept(k)}, path=part.path)


def adapt_to_json(schema: Schema, subset: str, mode: Mode) -> dict[str, Any]:
    """Adapt a schema and return the result as JSON values; called in the child process."""
    return asdict(adapt(schema, {**SUBSETS, **PROFILES}[subset], mode))


def adapt(schema: Schema, subset: Subset, mode: Mode) -> Adapted | Inexpressible:
    """Adapt the schema to the subset; return it with its changes, or return the keyword that prevents this."""
    try:
        adapted, ledger = _adapt_to_finite(schema, subset, mode)
        exceeded = list(excess(adapted, subset.limits))
        if any(keyword == "required" for keyword, _, _ in exceeded) and not subset.all_required:
            # too many properties are optional: require all of them
            adapted, ledger = _adapt_to_finite(schema, replace(subset, all_required=True), mode)
            exceeded = list(excess(adapted, subset.limits))
        for keyword, count, limit in exceeded:
            ledger.refuse(keyword, (), f"{count}, {limit}")
    except Blocked as blocked:
        return blocked.obstacle
    except Contradiction:
        return Inexpressible(keyword="", path="", message="no schema of the provider's subset has a valid instance")
    if not ledger.changes() and adapted != schema:
        ledger.note("rewritten", "", (), "replaced by an equivalent schema")
    foretold = tuple(f"likely too complex: {count}" for _, count, _ in excess(adapted, subset.likely))
    return Adapted(schema=adapted, changes=ledger.changes(), foretold=foretold)


def _adapt_to_finite(schema: Schema, subset: Subset, mode: Mode) -> tuple[Node, Ledger]:
    """Adapt the schema, without optional properties that the subset requires but that have no finite instance."""
    omitted: frozenset[Path] = frozenset()
    while True:
        ledger = Ledger(mode)
        narrowing = Narrowing(SchemaDocument(schema), subset, ledger, omitted)
        root = narrowing.root()
        finite = _finite_references(_places(root, narrowing.definitions))
        infinite = {path for node, path in narrowing.context.made_required if not _is_finite(node, finite)}
        if infinite <= omitted:
            break
        omitted |= infinite
    if not _is_finite(root, finite):
        ledger.refuse("$ref", (), "every valid answer would be infinite")
    reference_cycle = _find_required_cycle(root, narrowing.definitions) if subset.recursion == "optional" else None
    if reference_cycle is not None and mode == "relax":
        return _adapt_to_finite(schema, replace(subset, recursion="none"), mode)
    if reference_cycle is not None:
        message = "the schema refers to itself through required properties only"
        ledger.refuse("$ref", narrowing.origin(reference_cycle), message)
    head = {}
    if isinstance(schema, Mapping) and "$schema" in schema:
        if "$schema" in subset.keywords:
            head = {"$schema": schema["$schema"]}
        else:
            ledger.note("dropped_annotation", "$schema", (), "does not affect validity")
    definitions = _used_definitions(root, narrowing.definitions)
    tail: Node = {}
    for place, node in definitions.items():
        keyword, _, name = place.partition("/")
        tail.setdefault(keyword, {})[name] = node
    return {**head, **root, **tail}, ledger


def _used_definitions(root: Node, definitions: Mapping[str, Node]) -> dict[str, Node]:
    """Return the definitions that the root refers to, directly or indirectly, by place: `$defs/name`."""
    names: set[str] = set()
    pending = [root]
    while pending:
        for node, _ in walk(pending.pop()):
            name = node.get("$ref", "#").removeprefix("#/")
            if name in definitions and name not in names:
                names.add(name)
                pending.append(definitions[name])
    return {name: node for name, node in definitions.items() if name in names}


def _find_required_cycle(root: Node, definitions: Mapping[str, Node]) -> str | None:
    """Return a reference that leads back to itself through required properties only; None without such a reference."""
    places = _places(root, definitions)
    nodes = cycle(lambda node: [places[name] for name in _unavoidable(node) if name in places], places.values())
    return next((reference for reference, node in places.items() if id(node) in nodes), None)


def _places(root: Node, definitions: Mapping[str, Node]) -> dict[str, Node]:
    return {"#": root, **{f"#/{place}": node for place, node in definitions.items()}}


def _unavoidable(node: Node) -> Iterator[str]:
    """Yield the references in the node, except references within optional properties."""
    if "$ref" in node:
        yield node["$ref"]
    required = node.get("required", ())
    optional = [id(child) for name, child in node.get("properties", {}).items() if name not in required]
    for child in children(node):
        if id(child) not in optional:
            yield from _unavoidable(child)


def _finite_references(places: Mapping[str, Node]) -> set[str]:
    """Return the references in an adapted schema whose targets have a finite instance."""
    finite: set[str] = set()
    while more := {name for name, node in places.items() if name not in finite and _is_finite(node, finite)}:
        finite |= more
    return finite


def _is_finite(node: Node, finite: Collection[str]) -> bool:
    """Return whether the node has a finite instance, if the targets of the references in `finite` have one."""
    if "$ref" in node:
        return node["$ref"] in finite
    if "anyOf" in node:
        return any(_is_finite(branch, finite) for branch in node["anyOf"])
    kinds = node.get("type", [])
    listed = [kinds] if isinstance(kinds, str) else kinds
    return not listed or any(all(_is_finite(part, finite) for part in _mandatory_parts(kind, node)) for kind in listed)


def _mandatory_parts(kind: str, node: Node) -> list[Node]:
    """Return the subschemas of the properties or items that every object or array of the schema contains."""
    if kind == "object":
        properties = node.get("properties", {})
        return [properties[name] for name in node.get("required", ()) if name in properties]
    least = node.get("minItems", 0)
    if kind != "array" or least <= 0:
        return []
    first = node.get("prefixItems", [])
    parts = list(first[:least])
    if "items" in node and least > len(first):
        parts.append(node["items"])
    return parts
