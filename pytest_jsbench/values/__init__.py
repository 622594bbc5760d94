"""Compare the values in an answer with the expected values. The result is not part of the verdict."""

from pytest_jsbench.values.comparers import Comparer, expecting, may_name_comparers, without_comparers
from pytest_jsbench.values.matches import Difference, Fault, Match, described, match

__all__ = [
    "Comparer",
    "Difference",
    "Fault",
    "Match",
    "described",
    "expecting",
    "match",
    "may_name_comparers",
    "without_comparers",
]
