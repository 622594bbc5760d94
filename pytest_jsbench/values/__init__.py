"""Compare the values in an answer with the expected values. The result is not part of the verdict."""

from pytest_jsbench.values.comparers import Comparer, extract_comparers, without_comparers
from pytest_jsbench.values.matches import Difference, Fault, Match, describe_match, match

__all__ = [
    "Comparer",
    "Difference",
    "Fault",
    "Match",
    "describe_match",
    "extract_comparers",
    "match",
    "without_comparers",
]
