"""Define the figures of repeated answers: how often two conforming answers to a case have equal values."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_jsbench.core.cases import CaseKey
from pytest_jsbench.metrics.attempt_groups import cluster_by_case
from pytest_jsbench.metrics.figure import RUNS, VALUES, VARIANTS, FigureSet, metric
from pytest_jsbench.metrics.statistics import Proportion, proportion
from pytest_jsbench.values.value_digests import EqualPairs, count_equal_pairs, count_equal_pairs_by_field

#: Maximum number of fields in a file; gates may name any other.
_MOST_FIELDS = 200


class AgreementFigures(FigureSet):
    """Figures of the values in repeated answers; n/a without two conforming answers to a case."""

    comes_last = True

    @metric(VALUES, is_main=True, heading="Agreement", tables=VARIANTS | RUNS)
    def agreement(self) -> Proportion:
        """
        Pairs of conforming answers to a case, of the same variant, whose values are equal as JSON / all such pairs.

        At temperature 0, this measures the determinism of the server.
        """
        digests = self._groups.value_digests
        return cluster_by_case((key, *count_equal_pairs(of_case)) for key, of_case in digests)

    @metric(VALUES, members={}, absent=proportion(0, 0), most_in_files=_MOST_FIELDS)
    def field_agreement(self) -> Mapping[str, Proportion]:
        """
        For each field, named as in `items.*.amount`: pairs of conforming answers in which the field has equal values /
        pairs in which an answer has the field. Values in lists are compared by position. Bounds are named as for
        `scores`; the lowest rates first, at most 200 in files; empty without such pairs.
        """
        by_field: dict[str, list[tuple[CaseKey, EqualPairs]]] = {}
        for key, of_case in self._groups.value_digests:
            for name, pairs in count_equal_pairs_by_field(of_case).items():
                by_field.setdefault(name, []).append((key, pairs))
        rates = {name: cluster_by_case((key, *pairs) for key, pairs in of_cases) for name, of_cases in by_field.items()}
        return dict(sorted(rates.items(), key=lambda pair: (pair[1].value or 0.0, -pair[1].n, pair[0])))
