"""The two tables of partial aggregates: how each kind is lifted and combined, and how each function is lowered.

`logic_for` says how a kind of partial is lifted and combined. `lower_aggregate` says how a function's results are made
of partials. A new aggregate function is a case here, and a new file when none of the partials will do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa

from headrace.model.plan import LaneKind
from headrace.model.query import AggregateFunction
from headrace.model.types import Kind, SqlType
from headrace.operators.windows.lanes.base import (
    LaneLogic,
    Lowered,
    RowPartials,
)
from headrace.operators.windows.lanes.counts import CountLogic, lower_count, lower_count_all
from headrace.operators.windows.lanes.extremes import (
    GREATEST,
    LEAST,
    ExtremeLogic,
    lower_by,
    lower_extreme,
)
from headrace.operators.windows.lanes.moments import MomentsLogic, lower_variance
from headrace.operators.windows.lanes.sums import FloatSumLogic, IntSumLogic, lower_average, lower_sum
from headrace.operators.windows.lanes.values import (
    lower_average_distinct,
    lower_count_distinct,
    lower_percentile,
    lower_set,
    lower_sum_distinct,
)


def logic_for(kind: LaneKind, type_: SqlType | None) -> LaneLogic:
    """The logic of dense partials of a kind over inputs of `type_` (None for ROWS). Strings and rows come as ranks.

    Only `lift` depends on more of the type than whether its partials are integers or floats.
    """
    match kind:
        case LaneKind.ROWS:
            return CountLogic(nulls=False)
        case LaneKind.NULLS:
            return CountLogic(nulls=True)
    assert type_ is not None
    match kind:
        case LaneKind.SUM:
            return FloatSumLogic() if type_.kind is Kind.FLOATING else IntSumLogic()
        case LaneKind.MIN:
            return ExtremeLogic(type_, np.minimum, LEAST)
        case LaneKind.MAX:
            return ExtremeLogic(type_, np.maximum, GREATEST)
        case LaneKind.MOMENTS:
            return MomentsLogic(type_.scale if type_.kind is Kind.DECIMAL else 0)
        case LaneKind.BAG:
            raise ValueError("bags are no dense partials")
        case _:
            assert_never(kind)


def lower_aggregate(
    rows: RowPartials, index: int, types: Sequence[SqlType], vocabularies: dict[int, pa.Array]
) -> Lowered:
    """One aggregate's values, and where its result does not fit (None: nowhere).

    `types` are those of the operator's inputs, `vocabularies` has those of the inputs that have one.
    """
    function, input_ = rows.output.aggregates[index].function, rows.output.inputs[index][0]
    match function:
        case AggregateFunction.COUNT_ALL:
            return lower_count_all(rows, index)
        case AggregateFunction.COUNT:
            return lower_count(rows, index)
        case AggregateFunction.SUM:
            return lower_sum(rows, index)
        case AggregateFunction.AVG:
            return lower_average(rows, index)
        case AggregateFunction.MIN:
            return lower_extreme(rows, index, LaneKind.MIN, vocabularies.get(input_))
        case AggregateFunction.MAX:
            return lower_extreme(rows, index, LaneKind.MAX, vocabularies.get(input_))
        case AggregateFunction.MIN_BY:
            return lower_by(rows, index, LaneKind.MIN, vocabularies.get(input_))
        case AggregateFunction.MAX_BY:
            return lower_by(rows, index, LaneKind.MAX, vocabularies.get(input_))
        case AggregateFunction.VAR_POP:
            return lower_variance(rows, index, sample=False, root=False)
        case AggregateFunction.VAR_SAMP:
            return lower_variance(rows, index, sample=True, root=False)
        case AggregateFunction.STDDEV_POP:
            return lower_variance(rows, index, sample=False, root=True)
        case AggregateFunction.STDDEV_SAMP:
            return lower_variance(rows, index, sample=True, root=True)
        case AggregateFunction.COUNT_DISTINCT:
            return lower_count_distinct(rows, index)
        case AggregateFunction.SUM_DISTINCT:
            return lower_sum_distinct(rows, index, types[input_])
        case AggregateFunction.AVG_DISTINCT:
            return lower_average_distinct(rows, index, types[input_])
        case AggregateFunction.PERCENTILE:
            return lower_percentile(rows, index, types[input_])
        case AggregateFunction.COLLECT_SET:
            return lower_set(rows, index, types[input_], vocabularies.get(input_))
        case _:
            assert_never(function)
