"""What Spark's expressions have and sqlglot's tree has no node for. `grammar` reads them, and `dialect` writes them."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class UnsignedShift(exp.Expression, exp.Binary):
    """`a >>> b`"""


class Plus(exp.Unary):
    """`+a`"""


class UnitsInterval(exp.Expression):
    """`INTERVAL 1 HOUR 30 MINUTES` and `INTERVAL '1:30' HOUR TO MINUTE`: the words after INTERVAL, as written."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class Quantified(exp.Expression):
    """`ANY ('a%', 'b%')`, what LIKE may be followed by."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


class JoinedStrings(exp.Expression):
    """`'a' 'b'`, which is one string."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}
