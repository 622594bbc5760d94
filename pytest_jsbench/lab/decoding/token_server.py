"""The embedded model's server, asked for tokens and how likely each is, and its slots, one for each call."""

from __future__ import annotations

import hashlib
import tempfile
import time
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_jsbench.core.generations import CallError, Completion, FaultKind, ResponseFormat, Sent
from pytest_jsbench.engines.addresses import Address
from pytest_jsbench.engines.http.calls import Deadline, reading
from pytest_jsbench.engines.http.faults import EnclosedError, explain_error
from pytest_jsbench.engines.http.values import parse_json
from pytest_jsbench.engines.providers.openai import without_calls

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pytest_jsbench.core.generations import Declined
    from pytest_jsbench.core.prompts import Prompt
    from pytest_jsbench.lab.decoding.walks import Offered

#: seconds between two looks for a slot that another process holds
_PAUSE = 0.02
#: without a schema: whatever the server says against a request is no word about one
_SENT = Sent(response_format=ResponseFormat.TEXT)


class TokenServer:
    """
    The local server's own endpoints: the tokens of a prompt, and how likely each next token is.

    An engine of a decoding library makes one when it is built and closes it when it is closed. All threads of the calls
    in flight share its HTTP client. The server itself belongs to whoever started it.
    """

    def __init__(self, address: str, *, key: str) -> None:
        from pytest_jsbench.engines.http.client import Client

        self._address = address
        self._key = key
        # a proxy would look for the server on its own machine
        headers = {"authorization": f"Bearer {key}"}
        self._client = Client(Address.parse(address), headers=headers, proxies=False, secret=key)

    def close(self) -> None:
        """Close the client's connections."""
        self._client.close()

    def read_prompt(self, prompt: Prompt, deadline: Deadline) -> list[int]:
        """Return the tokens by which the model is asked."""
        body = {"content": self._rendered(prompt, deadline), "add_special": True, "parse_special": True}
        return [int(token) for token in self._post("/tokenize", body, deadline)["tokens"]]

    def refused(self, prompt: Prompt, deadline: Deadline) -> Declined | None:
        """Return why the model cannot be asked this; None where it can."""
        return without_calls(prompt, self._rendered(prompt, deadline)) if prompt.calls_tools else None

    def _rendered(self, prompt: Prompt, deadline: Deadline) -> str:
        return str(self._post("/apply-template", {"messages": prompt.to_messages()}, deadline)["prompt"])

    def rank(
        self, tokens: Sequence[int], *, count: int, breadth: int, slot: int, fresh: bool, deadline: Deadline
    ) -> list[Offered]:
        """
        Return the likeliest tokens at each of the next positions, as the model itself would go on.

        Fresh: nothing that was computed before is used, so that an answer depends on its own request alone.
        """
        body = {
            "prompt": list(tokens),
            "n_predict": count,
            "n_probs": breadth,
            "temperature": 0,
            "id_slot": slot,
            "cache_prompt": not fresh,
        }
        positions = self._post("/completion", body, deadline)["completion_probabilities"]
        if not positions:
            raise CallError(FaultKind.BAD_RESPONSE, "the server offered no token to go on with")
        return [[(top["id"], top["logprob"]) for top in position["top_logprobs"]] for position in positions]

    def _post(self, path: str, body: Mapping[str, Any], deadline: Deadline) -> Any:
        try:
            with reading(), closing(self._client.post(path, body, deadline=deadline)) as response:
                return parse_json(response.read().decode())
        except CallError:
            if deadline.passed:
                raise deadline.fault() from None
            raise
        except EnclosedError as error:
            outcome = explain_error(error, _SENT, address=self._address, model="the model", secret=self._key)
        if isinstance(outcome, CallError):
            raise outcome
        message = outcome.text if isinstance(outcome, Completion) else outcome.message
        raise CallError(FaultKind.BAD_RESPONSE, message)


class Slots:
    """
    The server's slots, each lent to one call of one process at a time.

    What a slot has computed for a call is used by the next request of that call: another call in between would take
    it away, and what is computed again comes out a little differently.
    """

    def __init__(self, count: int, *, key: str) -> None:
        self._count = count
        # a folder that all processes of the run know, and nobody else
        self._folder = slots_folder(key)
        self._folder.mkdir(mode=0o700, exist_ok=True)

    @contextmanager
    def lent(self) -> Iterator[int]:
        """Lend a free slot by its number, for the length of the block; wait for one."""
        from filelock import FileLock, Timeout

        locks = [FileLock(self._folder / f"{slot}.lock", thread_local=False) for slot in range(self._count)]
        while True:
            for slot, lock in enumerate(locks):
                try:
                    lock.acquire(blocking=False)
                except Timeout:
                    continue
                try:
                    yield slot
                finally:
                    lock.release()
                return
            time.sleep(_PAUSE)


def slots_folder(key: str) -> Path:
    """Return where the locks of the slots are, for the server of that key."""
    name = hashlib.sha256(f"slots of {key}".encode()).hexdigest()[:24]
    return Path(tempfile.gettempdir()) / f"pytest-jsbench-{name}"
