"""A fake HTTP server with planted faults: slow grammars, and corrupted plain answers next to constrained ones."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field, replace

from pytest_jsbench.lab.probe.demo_chat import ChatRequest
from tests.support.enforcing_server import said
from tests.support.provider import Asked, Reply


@dataclass(slots=True)
class Loaded:
    """Function for `Provider.choose`; constrained answers conform, and plain answers repeat the requested line."""

    #: Seconds before the first answer for each schema, as if its grammar was compiled.
    compiling: float = 0.0
    #: Answer to a plain request once a constrained one was sent; None for the requested line.
    corrupted: str | None = None
    _schemas: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, asked: Asked) -> Reply:
        # the text that a prompt of a probe requests comes after an empty line
        line = asked.body["messages"][-1]["content"].rpartition("\n")[2]
        request = ChatRequest.from_body({**asked.body, "messages": [{"role": "user", "content": f"\n\n{line}"}]})
        with self._lock:
            if request.schema is None:
                is_corrupted = bool(self._schemas) and self.corrupted is not None
                return said(str(self.corrupted) if is_corrupted else request.wanted, request)
            schema = json.dumps(request.schema)
            is_first = schema not in self._schemas
            self._schemas.add(schema)
        return replace(said('{"n": 1}', request), silence=self.compiling if is_first else 0.0)
