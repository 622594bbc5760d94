"""What a project's own test asks an engine through, and the answer that it gets."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_jsbench.cases import Case, CaseKey, digest
from pytest_jsbench.contracts import Contract
from pytest_jsbench.core.text import printable
from pytest_jsbench.errors import ContractError, JSBenchError
from pytest_jsbench.failures import CaseFailed, headline
from pytest_jsbench.generations import Completion, Declined, Usage
from pytest_jsbench.placeholders import fill
from pytest_jsbench.prompts import Message, Prompt
from pytest_jsbench.terms import Terms, read_messages

if TYPE_CHECKING:
    from pytest_jsbench.records import Record
    from pytest_jsbench.timing import Timing
    from pytest_jsbench.verdicts import Verdict

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One attempt that a test asks for."""

    case: Case
    #: None: the run's own prompt for the schema
    prompt: Prompt | None
    repeat: int
    terms: Terms
    #: the test's first question
    first: CaseKey
    #: questions of the same run of the test that came before and asked the same
    equal_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back of one attempt, judged."""

    record: Record
    contract: Contract

    def __repr__(self) -> str:
        """In a few words: an assertion that fails shows it, and a record is long."""
        said = [str(self.record.key), headline(self.verdict), *([] if self.text is None else [self.text])]
        return f"Answer({', '.join(printable(part, 200) for part in said)})"

    @property
    def text(self) -> str | None:
        """What the engine said, to the letter; None where it declined or the call broke."""
        generation = self.record.generation
        return generation.text if isinstance(generation, Completion) else None

    @property
    def instance(self) -> Any:
        """The JSON value that the judge read in the text; None where there is none."""
        return self.record.verdict.instance

    @property
    def parsed(self) -> Any:
        """
        The instance as an object of the contract's type.

        ContractError where the answer holds no JSON value, or the type refuses it.
        """
        __tracebackhide__ = True
        verdict = self.verdict
        if verdict.instance is None and verdict.valid is None:
            message = f"there is no JSON value to parse: {headline(verdict)}"
            raise ContractError(message)
        return self.contract.parse(verdict.instance, broken="" if verdict.valid else headline(verdict))

    @property
    def verdict(self) -> Verdict:
        """What the judge says."""
        return self.record.verdict

    @property
    def timing(self) -> Timing | None:
        """How long it took; None where nothing came."""
        generation = self.record.generation
        return generation.timing if isinstance(generation, Completion | Declined) else None

    @property
    def usage(self) -> Usage:
        """Tokens as the provider reports them."""
        generation = self.record.generation
        return generation.usage if isinstance(generation, Completion | Declined) else Usage()


class Attempts:
    """The attempts of one test, as they are made; its functions may share them with every copy of the fixture."""

    def __init__(self, key: CaseKey, ask: Callable[[Question], Record]) -> None:
        self.key = key
        self._ask = ask
        self._repeat = 0
        self._asked = 0
        #: by what is asked, how often it was
        self._equal: Counter[str] = Counter()

    def begin(self, repeat: int) -> None:
        """The test runs again, for the `repeat`-th time from 0."""
        self._repeat, self._asked = repeat, 0
        self._equal.clear()

    def question(self, schema: Any, prompt: Prompt | None, terms: Terms) -> Question:
        """The next attempt; a second one of the same run of the test is a case of its own."""
        self._asked += 1
        asked = digest([schema, None if prompt is None else prompt.to_messages()])
        equal_before, self._equal[asked] = self._equal[asked], self._equal[asked] + 1
        case = Case(key=self.key.numbered(self._asked), schema=schema)
        return Question(
            case=case,
            prompt=prompt,
            repeat=self._repeat,
            terms=terms,
            first=self.key,
            equal_before=equal_before,
        )

    def ask(self, question: Question) -> Record:
        """Make the attempt; usable from any thread."""
        __tracebackhide__ = True
        return self._ask(question)


class JSBench:
    """The fixture `jsbench`: asks the run's engine, under the terms of the test's marker."""

    def __init__(self, terms: Terms, attempts: Attempts, *, folder: Path, rerun: str) -> None:
        self._terms = terms
        self._attempts = attempts
        self._folder = folder
        self._rerun = rerun

    def __repr__(self) -> str:
        return f"JSBench({self._attempts.key})"

    def using(self, **changes: Any) -> JSBench:
        """The same under other terms, by the names of the marker's arguments: `using(model="…")`."""
        __tracebackhide__ = True
        try:
            terms = self._terms.changed(changes, of="using()")
        except JSBenchError as error:
            raise error.with_traceback(None) from None
        return JSBench(terms, self._attempts, folder=self._folder, rerun=self._rerun)

    def generate(self, prompt: str | list[Any] | None = None, /, *, check: bool = True, **data: object) -> Answer:
        """
        Make one attempt, and fail the test unless the answer passes.

        The data fill the placeholders of the prompt, which is the marker's unless one is given (a text, or messages);
        one that is given without data is sent word for word. With `check=False` whatever came is returned, with the
        judge's verdict.
        """
        __tracebackhide__ = True
        contract, question = self._question(prompt, data)
        try:
            record = self._attempts.ask(question)
        except JSBenchError as error:
            raise error.with_traceback(None) from None
        return self._answer(record, contract, check=check)

    async def agenerate(
        self, prompt: str | list[Any] | None = None, /, *, check: bool = True, **data: object
    ) -> Answer:
        """As `generate`, without holding up the event loop (asyncio's or trio's)."""
        __tracebackhide__ = True
        contract, question = self._question(prompt, data)
        try:
            record = await _in_thread(functools.partial(self._attempts.ask, question))
        except JSBenchError as error:
            raise error.with_traceback(None) from None
        return self._answer(record, contract, check=check)

    def _question(self, prompt: str | list[Any] | None, data: Mapping[str, object]) -> tuple[Contract, Question]:
        __tracebackhide__ = True
        terms = self._terms
        try:
            contract, filled = _asked(terms, prompt, data, self._folder)
        except JSBenchError as error:
            # the test's own line is where it went wrong, and the message says what
            raise error.with_traceback(None) from None
        return contract, self._attempts.question(contract.schema, filled, terms)

    def _answer(self, record: Record, contract: Contract, *, check: bool) -> Answer:
        __tracebackhide__ = True
        if check and not record.verdict.passed:
            raise CaseFailed(record, rerun=self._rerun)
        return Answer(record=record, contract=contract)


def _asked(
    terms: Terms, prompt: str | list[Any] | None, data: Mapping[str, object], folder: Path
) -> tuple[Contract, Prompt | None]:
    if terms.schema is None:
        raise ContractError("no schema: say @pytest.mark.jsbench(schema=…), or jsbench.using(schema=…)")
    contract = Contract.of(terms.schema, folder=folder)
    messages = _messages(terms, prompt)
    if messages is None:
        if data:
            raise ContractError(f"no prompt for {', '.join(data)}: say @pytest.mark.jsbench(schema=…, prompt=…)")
        return contract, None
    if prompt is not None and not data:  # what a test has made itself may hold anyone's text, and any brace in it
        return contract, Prompt(messages=messages)
    return contract, fill(messages, data, contract.schema)


def _messages(terms: Terms, prompt: str | list[Any] | None) -> tuple[Message, ...] | None:
    given = terms.prompt if prompt is None else prompt
    if isinstance(given, str):
        return (Message(role="user", content=given),)
    if given is None:
        return terms.messages
    try:
        return read_messages(given)
    except ValueError as error:
        raise ContractError(f"the prompt is no text and not {error}") from None


async def _in_thread(call: Callable[[], T]) -> T:
    __tracebackhide__ = True
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # not asyncio's loop, and a coroutine runs in some loop
        import trio

        done: T = await trio.to_thread.run_sync(call)
        return done
    return await asyncio.to_thread(call)
