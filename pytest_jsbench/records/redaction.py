"""
Redact records: remove what may be private before a record is written, sent or shown.

An answer is replaced by a digest with a key that is not kept, so that guesses of the answer cannot be tested. A prompt
is replaced by a digest with a salt that is part of the digest, so that a later run can detect that it has the same
prompt.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass, field
from typing import assert_never

from msgspec.structs import replace

from pytest_jsbench.adaptation import Change
from pytest_jsbench.core.cases import Prompt
from pytest_jsbench.core.generations import Completion, Decided, Declined, Failed, Sent
from pytest_jsbench.core.json_values import digest
from pytest_jsbench.records.call_load import CallLoad
from pytest_jsbench.records.records import Record, RedactedSchema, WrittenPrompt
from pytest_jsbench.records.repairs import G, Repairs
from pytest_jsbench.records.transit import Transit
from pytest_jsbench.schemas.dialects import find_dialect
from pytest_jsbench.schemas.keyword_differences import SchemaDifference
from pytest_jsbench.schemas.keywords import KEYWORDS
from pytest_jsbench.values import Match
from pytest_jsbench.values.value_digests import WHOLE_DIGITS, ValueDigest
from pytest_jsbench.verdicts import FailureType, Verdict, Violation

#: Names that may be kept in violations: the JSON Schema keywords, and `false` for a schema that is `false`.
_KNOWN = KEYWORDS | {"false"}
#: Text that replaces words and paths for which no digest is kept.
REDACTED = "(redacted)"
_SALTED = "salted-sha256"


@dataclass(frozen=True, slots=True, kw_only=True)
class Redaction:
    """The secrets with which one run redacts its records."""

    #: Salt for prompts in hexadecimal; part of each prompt's digest.
    salt: str
    #: Key for answers in hexadecimal; exists only in the processes of the run.
    key: str = field(repr=False)

    @classmethod
    def new(cls) -> Redaction:
        """Return a redaction with new random secrets."""
        return cls(salt=secrets.token_hex(16), key=secrets.token_hex(32))

    def record(self, record: Record) -> Record:
        """Return the record without its prompt, schema and answer; a redacted record is returned unchanged."""
        if record.redacted is not None:
            return record
        return replace(
            record,
            schema=None,
            offer=None,
            redacted=RedactedSchema(keywords=record.used_keywords),
            written_prompt=None if record.prompt is None else WrittenPrompt.of(_salt_prompt(record.prompt, self.salt)),
            generation=None if record.generation is None else self._generation(record.generation),
            verdict=_verdict(record.verdict),
            changes=tuple(
                Change(kind=change.kind, keyword=_keyword(change.keyword), path=REDACTED, note=REDACTED)
                for change in record.changes
            ),
            expected=None,
            match=record.match and _counts(record.match),
            test_outcome=record.test_outcome and record.test_outcome.without_messages(REDACTED),
            repairs=record.repairs and self._repairs(record.repairs),
            value_digest=record.value_digest and self._value_digest(record.value_digest),
            transit=record.transit and _redact_transit(record.transit),
            load=record.load and self._load(record.load),
            reference=None if record.reference is None else self.digest(json.dumps(record.reference, sort_keys=True)),
        )

    def digest(self, text: str) -> str:
        """Return the digest of a text; equal texts in the same run have equal digests."""
        return f"hmac-sha256:{_hmac(bytes.fromhex(self.key), text)}"

    def _generation(self, generation: G) -> G:
        match generation:
            case Completion():
                reasoning = generation.reasoning and self.digest(generation.reasoning)
                text = self.digest(generation.text)
                return replace(
                    generation, text=text, reasoning=reasoning, calls=(), beside="", sent=_redact_sent(generation.sent)
                )
            case Declined():
                return replace(generation, message=REDACTED, sent=_redact_sent(generation.sent))
            case Failed():
                return replace(generation, message=REDACTED)
            case Decided():
                return generation
            case _:
                assert_never(generation)

    def _value_digest(self, digest: ValueDigest) -> ValueDigest:
        """Return the digest of the whole value, computed with the key; names of fields may be private."""
        whole, name = (_hmac(bytes.fromhex(self.key), text)[:WHOLE_DIGITS] for text in (digest.whole, "\0key"))
        return ValueDigest(whole=whole, is_cut=True, key=name)

    def _load(self, load: CallLoad) -> CallLoad:
        """Return the load without the answers of plain calls, which may contain words of other requests."""
        plain = (replace(each, generation=self._generation(each.generation)) for each in load.plain)
        return replace(load, plain=tuple(plain))

    def _repairs(self, repairs: Repairs) -> Repairs:
        tries = (
            replace(
                each,
                prompt_digest=digest(self.digest(each.prompt_digest)),
                message=REDACTED,
                generation=self._generation(each.generation),
                verdict=_verdict(each.verdict),
            )
            for each in repairs.tries
        )
        return replace(repairs, tries=tuple(tries))


def has_same_prompt(record: Record, prompt: Prompt) -> bool:
    """Return whether the prompt in a record, which may be redacted, equals this prompt."""
    if record.prompt is None:
        return False
    if record.redacted is None:
        return record.prompt.digest == prompt.digest
    parts = record.prompt.messages[0].content.split(":") if record.prompt.messages else []
    salt = parts[1] if len(parts) == 3 and parts[0] == _SALTED else ""
    return _salt_prompt(prompt, salt) == record.prompt


def _salt_prompt(prompt: Prompt, salt: str) -> Prompt:
    def salt_text(text: str) -> str:
        return f"{_SALTED}:{salt}:{_hmac(salt.encode(), text)}"

    messages = []
    for message in prompt.messages:
        calls = (
            dataclasses.replace(
                call, name=salt_text(call.name), arguments=json.dumps({REDACTED: salt_text(call.arguments)})
            )
            for call in message.tool_calls
        )
        messages.append(dataclasses.replace(message, content=salt_text(message.content), tool_calls=tuple(calls)))
    return Prompt(messages=tuple(messages))


def _hmac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _redact_sent(sent: Sent | None) -> Sent | None:
    return None if sent is None else replace(sent, schema=None, tools=None)


def _verdict(verdict: Verdict) -> Verdict:
    return replace(
        verdict,
        message=_message(verdict),
        tool=verdict.tool and REDACTED,
        violations=tuple(
            Violation(keyword=_keyword(each.keyword), instance_path=REDACTED, schema_path=REDACTED, message=REDACTED)
            for each in verdict.violations
        ),
        extra_fields=(REDACTED,) * len(verdict.extra_fields),
        misplaced_fields=(REDACTED,) * len(verdict.misplaced_fields),
        dialect=verdict.dialect if find_dialect(verdict.dialect) else None,
        instance=None,
    )


def _redact_transit(transit: Transit) -> Transit:
    """Return the comparison of schemas reduced to relations and keywords, without names and values."""
    schemas = (
        replace(
            each,
            tool=each.tool and REDACTED,
            place=each.place and REDACTED,
            differences=tuple(
                SchemaDifference(kind=change.kind, keyword=_keyword(change.keyword), place=REDACTED)
                for change in each.differences
            ),
            accepted="",
            rejected="",
            reason=each.reason and REDACTED,
        )
        for each in transit.schemas
    )
    return Transit(schemas=tuple(schemas))


def _counts(match: Match) -> Match:
    """Return the match reduced to numbers, without names of fields and without values."""
    surplus = None if match.surplus is None else {REDACTED: match.given - match.expected}
    fields = {REDACTED: (match.right, match.expected)} if match.fields else {}
    return Match(fields=fields, invented=match.invented, missing=match.missing, surplus=surplus)


def _message(verdict: Verdict) -> str:
    """Return the message of a verdict, replaced if it may contain words from the prompt, schema or answer."""
    if not verdict.message or verdict.failure_type is FailureType.WRONG_DECISION:  # this message only counts answers
        return verdict.message
    broken = dict.fromkeys(_keyword(violation.keyword) for violation in verdict.violations)
    return f"breaks {', '.join(broken)}" if broken else REDACTED


def _keyword(name: str) -> str:
    """Return the name if it is that of a JSON Schema keyword; other names may be private and are replaced."""
    return name if name in _KNOWN else REDACTED
