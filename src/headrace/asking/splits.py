"""Splits as people ask for them: created, given their operator again, altered, restarted and dropped."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace import sql
from headrace.asking.creating import parse
from headrace.asking.defining import define_stream
from headrace.engine.splits.code import RowFunction, SplitCode, pack, unpack
from headrace.log.chunks import arrow_schema
from headrace.model.errors import CatalogError, did_you_mean
from headrace.model.events import EventKind
from headrace.model.query import Projection, Stream
from headrace.model.splits import FUNCTION, Split
from headrace.model.splitting import ONE_KIND, SplitOperator, missing_methods
from headrace.model.types import Kind
from headrace.options import Duration
from headrace.sql.text.names import quote_name

if TYPE_CHECKING:
    from headrace.session import Session

MOST_SUB_STREAMS = 10_000

Expression = str | RowFunction


@dataclass(frozen=True, slots=True)
class Wanted:
    """A split as a person writes it."""

    name: str
    stream: str
    sub_streams: int
    operator: Callable[[], SplitOperator]
    route: Expression | None
    broadcast: Expression | None
    schema: str | None
    outputs: Mapping[str, str] | None
    order_by: str | Sequence[str] | None
    wants: str | None
    event_time: str | None
    watermark: Duration
    time_limit: Duration | None


def create_split(session: Session, wanted: Wanted) -> Split:
    """Begin a split with the next epoch; or give one that exists its operator again."""
    running = session._runs()
    split, code = _define(session, wanted), pack(wanted.name, _code(wanted))
    present = session._catalog.splits.find(wanted.name)
    if present is None:
        with session._sealer.holding():  # it begins with the next epoch, whichever that is
            latest = session._sealer.latest
            first = 0 if latest is None else int(latest.id) + 1
            number = session._catalog.splits.next_id
            split = replace(split, id=number, first_epoch=first, requested_at=time.time())
            running.splits.create(split, code)
        return split
    if not split.same_as(present):
        raise CatalogError(
            "SPLIT_EXISTS",
            f"there is already a split `{present.name}`, and it is another one",
            detail=_difference(split, present),
            hint="give its operator with the same definition, or drop it first",
        )
    running.splits.of(present).attach(code)
    return present


def _code(wanted: Wanted) -> SplitCode:
    _check_operator(wanted.name, wanted.operator)
    functions = (None if isinstance(given, str) else given for given in (wanted.route, wanted.broadcast))
    return SplitCode(wanted.operator, *functions)


def _check_operator(name: str, operator: object) -> None:
    if not callable(operator):
        raise CatalogError(
            "BAD_SPLIT",
            f"the operator of split `{name}` is no class and no function that makes one",
            hint="give the class, or functools.partial(Class, option=...)",
        )
    made = _made_by(operator)
    if isinstance(made, type) and (missing := missing_methods(made)):
        raise _bad(
            name, f"has an operator without {missing[0]}()", "docs/splits.md shows what an operator has"
        )


def _made_by(operator: object) -> object:
    """The class or function that makes an operator, whatever options are given to it."""
    while isinstance(operator, partial):
        operator = operator.func
    return operator


def attach_split(session: Session, name: str, code: SplitCode) -> Split:
    """Give a split that exists its code again; its definition is in the warehouse."""
    split = session._catalog.splits.get(name)
    _check_operator(split.name, code.operator)
    for what, text, given in (
        ("route", split.route, code.route),
        ("broadcast", split.broadcast, code.broadcast),
    ):
        if (text == FUNCTION) != (given is not None):
            why = (
                "a function, which is not kept"
                if text == FUNCTION
                else f"no function but {text or 'nothing'}"
            )
            raise _bad(
                split.name, f"has a {what} that is {why}", f"give {what}= where it is a function, only there"
            )
    session._runs().splits.of(split).attach(pack(split.name, code))
    return split


def _define(session: Session, wanted: Wanted) -> Split:
    sql.check_name(wanted.name, "split")
    q = wanted.sub_streams
    _check_count(wanted.name, q)
    if wanted.route is None and wanted.broadcast is None:
        raise _bad(
            wanted.name, "has neither a route nor a broadcast", "nobody would get a tuple: give one of them"
        )
    stream = session._catalog.stream(wanted.stream)
    return Split(
        id=-1,
        name=wanted.name,
        stream=str(stream.name),
        sub_streams=q,
        route=_expression(session, wanted.name, stream, "route", wanted.route),
        broadcast=_expression(session, wanted.name, stream, "broadcast", wanted.broadcast),
        wants=_expression(session, wanted.name, stream, "wants", wanted.wants),
        order_by=_order(wanted, stream),
        outputs=_outputs(session, wanted, stream),
        first_epoch=0,
        call_us=_time_limit(wanted),
    )


def _time_limit(wanted: Wanted) -> int | None:
    limit = None if wanted.time_limit is None else sql.parse_duration(wanted.time_limit)
    if limit is not None and limit <= 0:
        raise _bad(
            wanted.name, f"has a time_limit of {wanted.time_limit}", "give one above 0, or None for no limit"
        )
    return limit


def _check_count(name: str, q: object) -> None:
    if type(q) is not int or not 1 <= q <= MOST_SUB_STREAMS:
        raise _bad(
            name, f"cannot have {q!r} sub-streams", f"give a whole number from 1 to {MOST_SUB_STREAMS}"
        )


def _expression(
    session: Session, name: str, stream: Stream, what: str, given: Expression | None
) -> str | None:
    """What is written down of a route, broadcast or predicate; SqlError when Spark could not evaluate it."""
    if given is None:
        return None
    if not isinstance(given, str):
        if what == "wants" or not callable(given):
            raise _bad(name, f"has a {type(given).__name__} as its {what}", "write it as SQL")
        return FUNCTION
    plan = parse(session, f"SELECT ({given}) AS value FROM {quote_name(str(stream.name))}")
    if not isinstance(plan.body, Projection):
        raise _bad(
            name,
            f"has a {what} that is not of one tuple",
            "use columns of the stream and functions of these",
        )
    kind, allowed = plan.columns[0].type.kind, Kind.INTEGER if what == "route" else Kind.BOOLEAN
    if kind not in (allowed, Kind.VOID):
        needed = "whole numbers" if what == "route" else "TRUE or FALSE"
        raise _bad(name, f"has a {what} of type {plan.columns[0].type.name}", f"it must give {needed}")
    return given.strip()


def _order(wanted: Wanted, stream: Stream) -> tuple[str, ...]:
    given = wanted.order_by
    if given is not None and not isinstance(given, Sequence):
        raise _bad(wanted.name, f"is ordered by {given!r}", "name columns of the stream")
    names = () if given is None else (given,) if isinstance(given, str) else tuple(given)
    known = {column.name.lower(): column.name for column in stream.columns}
    for name in names:
        if not isinstance(name, str):
            raise _bad(wanted.name, f"is ordered by {name!r}", "name columns of the stream")
        if name.lower() not in known:
            raise _bad(
                wanted.name,
                f"is ordered by `{name}`, which is no column of stream `{stream.name}`",
                did_you_mean(name, list(known.values())) or "name columns of the stream",
            )
        _check_sortable(wanted, stream, known[name.lower()])
    return tuple(known[name.lower()] for name in names if known[name.lower()] != stream.event_time)


def _check_sortable(wanted: Wanted, stream: Stream, name: str) -> None:
    try:
        pc.sort_indices(arrow_schema(stream).empty_table(), sort_keys=[(name, "ascending")])
    except (pa.ArrowException, TypeError):
        kind = next(column.type.name for column in stream.columns if column.name == name)
        why = f"is ordered by `{name}`, which has type {kind}"
        raise _bad(wanted.name, why, "order by numbers, text, dates or times") from None


def _outputs(session: Session, wanted: Wanted, stream: Stream) -> dict[str, Stream]:
    spark = session._runs().groups.spark
    found = {}
    for kind, (name, schema) in _named(wanted).items():
        when = wanted.event_time or stream.event_time
        found[kind] = define_stream(spark, name, str(schema), when, wanted.watermark)
    return found


def _named(wanted: Wanted) -> dict[str, tuple[str, str]]:
    """Name and columns of the output streams, by kind. Names of streams differ by more than the case of letters."""
    if wanted.schema is not None and wanted.outputs is None:
        return {ONE_KIND: (wanted.name, wanted.schema)}
    if wanted.schema is not None or wanted.outputs is None:
        raise _bad(
            wanted.name, "needs one of schema and outputs", "schema for one kind of rows, outputs for several"
        )
    if not isinstance(wanted.outputs, Mapping) or not wanted.outputs:
        raise _bad(wanted.name, "has no kinds in its outputs", 'write them as {"kind": "column TYPE, ..."}')
    kinds: dict[str, str] = {}
    for kind in wanted.outputs:
        if not isinstance(kind, str):
            raise _bad(wanted.name, f"has {kind!r} as the name of a kind", "name kinds by texts")
        if (other := kinds.setdefault(kind.lower(), kind)) != kind:
            why = f"has kinds `{other}` and `{kind}`, whose streams would have the same name"
            raise _bad(wanted.name, why, "names of streams must differ by more than the case of letters")
    return {kind: (f"{wanted.name}_{kind}", schema) for kind, schema in wanted.outputs.items()}


def _bad(name: str, why: str, hint: str) -> CatalogError:
    return CatalogError("BAD_SPLIT", f"split `{name}` {why}", hint=hint)


def _difference(split: Split, present: Split) -> str:
    for field in ("stream", "sub_streams", "route", "broadcast", "wants", "order_by", "outputs", "call_us"):
        new, old = getattr(split, field), getattr(present, field)
        if new != old:
            shown = ("other columns", "") if field == "outputs" else (f"{new!r}", f", not {old!r}")
            return f"{field}: {shown[0]}{shown[1]}"
    return "nothing differs"


def alter_split(session: Session, name: str, q: int, route: Expression | None) -> Split:
    """Let a split have another number of sub-streams from its next epoch on, and another route if one is given."""
    split = session._catalog.splits.get(name)
    runner = session._runs().splits.of(split)
    _check_count(split.name, q)
    if runner.code is None:
        raise CatalogError(
            "SPLIT_WAITS",
            f"split `{split.name}` has no operator, which would have to take its state apart",
            hint="give it with create_split, as it is now; then change q",
        )
    code = unpack(runner.code)
    _check_moves(split, code)
    stream = session._catalog.stream(split.stream)
    altered = replace(split, sub_streams=q)
    if route is not None:
        text = _expression(session, split.name, stream, "route", route)
        altered = replace(altered, route=text)
        code = replace(code, route=None if isinstance(route, str) else route)
    altered = session._runs().splits.alter(altered, pack(split.name, code), rerouted=route is not None)
    what = f"from {split.sub_streams} to {q} sub-streams, because somebody asked for it"
    session._events.add(time.time(), EventKind.RESIZED, runner.name, what)
    return altered


def _check_moves(split: Split, code: SplitCode) -> None:
    """CatalogError when it can be seen that an operator cannot move its state."""
    made = _made_by(code.operator)
    for needed in ("split_state", "merge_state"):
        if isinstance(made, type) and not hasattr(made, needed):
            raise CatalogError(
                "SPLIT_FIXED",
                f"the operator of split `{split.name}` has no {needed}(), which another number of sub-streams needs",
                hint="give it split_state(state, q) and merge_state(states); docs/splits.md says what they do",
            )


def restart_split(session: Session, name: str) -> Split:
    """Run the epoch that failed again, from the last commit on."""
    split = session._catalog.splits.get(name)
    session._runs().splits.of(split).restart()
    return split


def drop_split(session: Session, name: str) -> Split:
    """End a split; its output streams stay, and get no more input."""
    split = session._catalog.splits.get(name)
    session._runs().splits.drop(split)
    return split
