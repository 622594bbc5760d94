"""The old name of `pytest_jsbench.core.cases`, kept for extensions."""

from pytest_jsbench.core.cases import BrokenCase, Case, CaseKey, Message, Role, Schema

__all__ = ["BrokenCase", "Case", "CaseKey", "Message", "Role", "Schema"]
