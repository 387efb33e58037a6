"""Durations: text to integer microseconds and back."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache

from headrace.sql import errors

_UNITS = {
    "week": 604_800_000_000,
    "day": 86_400_000_000,
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}
_SHORT = {
    "d": "day",
    "h": "hour",
    "hr": "hour",
    "min": "minute",
    "s": "second",
    "sec": "second",
    "ms": "millisecond",
    "us": "microsecond",
}
_CALENDAR = frozenset(("month", "quarter", "year", "mon", "yr", "y"))


def parse_duration(value: str | timedelta) -> int:
    """Microseconds of a duration, possibly zero or negative; months and years have no length and are refused.

    >>> parse_duration("5 seconds"), parse_duration("1 hour 30 minutes"), parse_duration("10 ms")
    (5000000, 5400000000, 10000)
    >>> parse_duration("INTERVAL '1' DAY"), parse_duration("interval 2 minutes")
    (86400000000, 120000000)
    """
    if isinstance(value, timedelta):
        return _bounded(str(value), value // timedelta(microseconds=1))
    if not isinstance(value, str):
        raise errors.bad_duration(repr(value), "it is neither text nor a timedelta")
    return _parse(value, short=True)


@lru_cache(maxsize=4096)
def parse_spark_duration(text: str) -> int:
    """As `parse_duration`, but only what Spark's own `window()` takes: no short units.

    >>> parse_spark_duration("10 seconds")
    10000000
    """
    return _parse(text, short=False)


def _parse(text: str, *, short: bool) -> int:
    words = (text.replace("'", " ").replace('"', " ") if short else text).lower().split()
    if words and words[0] == "interval":
        words = words[1:]
    words = _split_glued(words) if short else words
    if not words or len(words) % 2:
        raise errors.bad_duration(text, "it needs pairs of a number and a unit")
    total = Decimal(0)
    for number, unit in zip(words[::2], words[1::2], strict=True):
        size = _unit(text, unit, short)
        if not short and size != _UNITS["second"] and not number.lstrip("+-").isdigit():
            raise errors.bad_duration(text, f"Spark takes no fraction of a {unit}")
        total += _number(text, number) * size
    if total != total.to_integral_value():
        raise errors.bad_duration(text, "it is finer than a microsecond")
    return _bounded(text, int(total))


def _bounded(text: str, us: int) -> int:
    if abs(us) >= 2**62:
        raise errors.bad_duration(text, "it is too long")
    return us


def _split_glued(words: list[str]) -> list[str]:
    """Separate '10ms' into '10', 'ms'."""
    out: list[str] = []
    for word in words:
        head = word.rstrip("abcdefghijklmnopqrstuvwxyz")
        out.extend(part for part in (head, word[len(head) :]) if part)
    return out


def _number(text: str, number: str) -> Decimal:
    try:
        value = Decimal(number)
    except InvalidOperation:
        raise errors.bad_duration(text, f"'{number}' is not a number") from None
    if not value.is_finite():
        raise errors.bad_duration(text, f"'{number}' is not a number")
    if value.adjusted() > 100 or value.adjusted() < -100:
        raise errors.bad_duration(text, f"'{number}' is too long or too short")
    return value


def _unit(text: str, unit: str, short: bool) -> int:
    name = _SHORT.get(unit, unit) if short else unit
    name = name.removesuffix("s") if name not in _UNITS else name
    name = _SHORT.get(name, name) if short else name
    if name in _CALENDAR:
        raise errors.bad_duration(text, f"a {name} has no fixed length")
    if name not in _UNITS:
        raise errors.bad_duration(text, f"'{unit}' is not a unit of time")
    return _UNITS[name]


@lru_cache(maxsize=4096)
def render_duration(us: int) -> str:
    """The shortest text that Spark reads as `us` microseconds.

    >>> render_duration(5_000_000), render_duration(5_400_000_000), render_duration(1)
    ('5 seconds', '90 minutes', '1 microsecond')
    """
    for unit, size in _UNITS.items():
        if us % size == 0 and unit != "week":
            count = us // size
            return f"{count} {unit}" + ("" if count == 1 else "s")
    raise AssertionError(us)
