"""The old name of `pytest_jsbench.core.cases`, kept for extensions."""

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Schema
from pytest_jsbench.core.messages import Message, Role

__all__ = ["BrokenCase", "Case", "CaseKey", "Message", "Role", "Schema"]
