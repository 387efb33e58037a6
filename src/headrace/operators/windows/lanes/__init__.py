"""Lanes: the kinds of partial aggregates, one file each, with what lifts, combines and lowers them."""

from headrace.operators.windows.lanes.added import AddedLogic
from headrace.operators.windows.lanes.base import (
    LaneLogic,
    MeasureLogic,
    Partials,
    RowBags,
    RowPartials,
    each_range,
)
from headrace.operators.windows.lanes.counts import CountLogic
from headrace.operators.windows.lanes.extremes import ExtremeLogic
from headrace.operators.windows.lanes.registry import logic_for, lower_aggregate
from headrace.operators.windows.lanes.sums import IntSumLogic
from headrace.operators.windows.lanes.values import ValueLogic

__all__ = [
    "AddedLogic",
    "CountLogic",
    "ExtremeLogic",
    "IntSumLogic",
    "LaneLogic",
    "MeasureLogic",
    "Partials",
    "RowBags",
    "RowPartials",
    "ValueLogic",
    "each_range",
    "logic_for",
    "lower_aggregate",
]
