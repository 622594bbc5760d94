"""Says its own number where the model server would say its address."""

from __future__ import annotations

import os
from typing import Any

from pytest_jsbench.core.child_service import Service


def main(config: dict[str, Any]) -> None:
    service = Service(config)
    service.ready(address=str(os.getpid()))
    list(service.requests())
