"""Names that Spark takes from expressions as they are written, kept while the expressions are resolved.

`struct(a)` and `arrays_zip(a)` name their fields after their arguments; a lambda's variable hides columns of its name.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.model.types import Kind
from headrace.sql.text.names import needs_quotes

Resolve = Callable[[exp.Expr], exp.Expr]

_NAMED = (exp.Column, exp.Dot, exp.Identifier)


def struct_fields(arguments: list[exp.Expr]) -> list[exp.Expr]:
    """What `named_struct` takes to mean `struct(arguments)`."""
    fields: list[exp.Expr] = []
    for place, argument in enumerate(arguments, 1):
        if isinstance(argument, exp.Alias):
            fields += [_text(str(argument.alias)), argument.this]
        else:
            fields += [_text(_written_name(argument) or f"col{place}"), argument]
    return fields


def zipped_arrays(arguments: list[exp.Expr], resolve: Resolve) -> list[exp.Expr]:
    """The arguments of `arrays_zip`, as a field of a struct where resolving one would change its name."""
    return [
        _as_field(name, argument)
        if (name := _written_name(argument)) is not None and _written_name(resolve(argument)) != name
        else argument
        for argument in arguments
    ]


def free_of_capture(node: exp.Lambda, resolve: Resolve, taken: frozenset[str]) -> exp.Lambda:
    """`node` with other variables where one would hide a column that its body is resolved to; changes `node`."""
    columns = [
        found for part in node.this.find_all(exp.Column) for found in resolve(part).find_all(exp.Column)
    ]
    used = {found.name.lower() for found in columns}
    for variable in node.expressions:
        if variable.name.lower() in used:
            _rename(node, variable.name, _fresh(variable.name, taken | used))
    return node


def identifier(name: str) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=needs_quotes(name))


def _written_name(node: exp.Expr) -> str | None:
    inner = node.unnest()
    return str(inner.meta.get("written", inner.name)) if isinstance(inner, _NAMED) else None


def _as_field(name: str, value: exp.Expr) -> exp.Expr:
    struct = exp.Anonymous(this="named_struct", expressions=[_text(name), value.copy()])
    return exp.Dot(this=struct, expression=identifier(name))


def _text(value: str) -> exp.Expr:
    literal = exp.Literal.string(value)
    literal.meta["harmless"] = Kind.STRING
    return literal


def _rename(node: exp.Lambda, old: str, new: str) -> None:
    for found in list(node.find_all(exp.Identifier)):
        of_column = isinstance(found.parent, exp.Column)
        of_field = isinstance(found.parent, exp.Dot) and found.parent.expression is found
        if found.name == old and not of_column and not of_field:
            found.set("this", new)
            found.meta.setdefault("written", old)


def _fresh(name: str, taken: frozenset[str]) -> str:
    number = 1
    while f"{name}_{number}".lower() in taken:
        number += 1
    return f"{name}_{number}"
