"""What a split's own code can do wrong. Each is an error of its own, and quarantines the split until somebody helps."""

from __future__ import annotations

from headrace.model.errors import EngineError
from headrace.model.splits import FUNCTION, Split

ROUTE, CHANGING_ROUTE, EXPRESSION = "SPLIT_ROUTE", "SPLIT_ROUTE_CHANGES", "SPLIT_EXPRESSION"
OPERATOR, OUTPUT, TIMEOUT = "SPLIT_OPERATOR", "SPLIT_OUTPUT", "SPLIT_TIMEOUT"

FAULTS = frozenset({ROUTE, CHANGING_ROUTE, EXPRESSION, OPERATOR, OUTPUT, TIMEOUT})

_RESTART = "mend it, give it with create_split, and call restart_split: no tuple is lost meanwhile"


def is_fault(error: Exception) -> bool:
    """Whether the code of a split is to blame, so that trying again would not help."""
    return isinstance(error, EngineError) and error.code in FAULTS


_ALTER = (
    "give it another route with alter_split, which asks the operator for split_state() and merge_state(), and call "
    "restart_split: no tuple is lost meanwhile"
)


def bad_route(split: Split, why: str) -> EngineError:
    """A route that is SQL is part of the split, so that only `alter_split` can change it."""
    hint = _RESTART if split.route == FUNCTION else _ALTER
    return EngineError(ROUTE, f"the route of split `{split.name}` gives {why}", hint=hint)


def bad_broadcast(split: Split, why: str) -> EngineError:
    return EngineError(ROUTE, f"the broadcast of split `{split.name}` gives {why}", hint=_RESTART)


def raised(split: str, what: str, error: BaseException) -> EngineError:
    """A function of the user's raised; `what` names it and the rows."""
    return EngineError(
        OPERATOR,
        f"{what} of split `{split}` raised {type(error).__name__}",
        detail=_last_lines(error),
        hint=_RESTART,
    )


def changing_route(split: str, what: str) -> EngineError:
    return EngineError(
        CHANGING_ROUTE,
        f"the {what} of split `{split}` gives other answers for the same tuples",
        detail="it was asked for a batch, and again for the first rows of it",
        hint="it must depend on the row alone: on no clock, no random number, no count and no other row; "
        + _RESTART,
    )


def bad_output(split: str, sub_stream: int, why: str) -> EngineError:
    return EngineError(
        OUTPUT, f"the operator of split `{split}` gave {why} (sub-stream {sub_stream})", hint=_RESTART
    )


def bad_expression(split: str, reason: str) -> EngineError:
    return EngineError(
        EXPRESSION,
        f"Spark cannot evaluate route, broadcast or wants of split `{split}`",
        detail=reason,
        hint=f"write expressions that hold for every tuple, such as try_divide. For the route, {_ALTER}; with another "
        "broadcast or wants, create another split, and drop this one",
    )


def run_again(split: str, epoch: int, reason: str) -> EngineError:
    """Nobody's code is to blame for what an epoch failed with, so it is tried again."""
    return EngineError(
        "EPOCH_FAILED",
        f"epoch {epoch} of split `{split}` could not be run",
        detail=reason,
        hint="nothing was committed, and no tuple is lost: a session that runs in the background tries again, "
        "otherwise call run_available. If it goes on failing, mend what the detail names, or call drop_split",
    )


def too_slow(split: str, what: str, seconds: float) -> EngineError:
    return EngineError(
        TIMEOUT,
        f"{what} of split `{split}` did not return within {seconds:g} seconds",
        hint="mend it, or create the split with a longer time_limit; then call restart_split: no tuple is lost",
    )


def ended(split: str, what: str) -> EngineError:
    """The worker process ended in a call, again and again."""
    return EngineError(
        OPERATOR,
        f"{what} of split `{split}` ended its process",
        detail="it did so each time: it crashes, ends the process, or needs more memory than there is",
        hint=_RESTART,
    )


def _last_lines(error: BaseException) -> str:
    """What was raised, and where in the user's code."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" ({trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno})"
    return f"{str(error)[:500]}{where}"
