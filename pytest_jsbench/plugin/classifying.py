"""The classifiers of a run: those that were named, and the project's own hook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_jsbench.classifiers import Classifier

HOOK = "pytest_jsbench_classify"


def find_classifiers(config: pytest.Config, names: Sequence[str]) -> tuple[Classifier, ...]:
    """Those of these names, and the hook where anybody implements it."""
    from pytest_jsbench.classifiers import Classifier, find

    found = [find(name) for name in names]
    hook = config.hook.pytest_jsbench_classify
    if hook.get_hookimpls():
        asks = Classifier(name=HOOK, origin="a hook", function=lambda record: hook(config=config, record=record))
        found.append(asks)
    return tuple(found)
