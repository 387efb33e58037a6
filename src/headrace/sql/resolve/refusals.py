"""What a continuous query cannot contain, each with its reason; one walk over the parsed tree."""

from __future__ import annotations

from sqlglot import exp

from headrace.model.errors import SqlError
from headrace.sql import errors
from headrace.sql.resolve.functions import GENERATORS, NONDETERMINISTIC, READS_WITH_OPTIONS, function_name
from headrace.sql.text.dialect import HeadraceParser, render
from headrace.sql.text.literals import names_a_moment

_CLOCKS = tuple(set(HeadraceParser.NO_PAREN_FUNCTIONS.values()))

_CLAUSES = {
    "laterals": ("LATERAL VIEW is not available", "give the stream one row per element"),
    "order": ("ORDER BY has no end to sort on a stream", "sort the results when you read them"),
    "sort": ("SORT BY has no meaning on a stream", "sort the results when you read them"),
    "distribute": ("DISTRIBUTE BY has no meaning on a stream", "leave it out"),
    "cluster": ("CLUSTER BY has no meaning on a stream", "leave it out"),
    "limit": ("LIMIT would end the query", "drop the query when you have enough"),
    "offset": ("OFFSET has no meaning on a stream", "leave it out"),
    "qualify": ("QUALIFY is not available", "filter on the analytic function in an outer SELECT"),
    "windows": ("the WINDOW clause is not available", "write the window inside OVER (...)"),
    "sample": ("TABLESAMPLE gives another answer each time it runs", "filter on a column instead"),
    "pivots": ("PIVOT is not available", "write one aggregate with FILTER per value"),
    "into": ("SELECT INTO is not a query", "name the query instead"),
    "match": ("MATCH_RECOGNIZE is not available", None),
    "version": ("time travel has no meaning on a stream", "leave it out"),
    "when": ("time travel has no meaning on a stream", "leave it out"),
}


def refuse_statement(tree: exp.Expr | None) -> exp.Select:
    """The SELECT that `tree` is; raises SqlError for set operations, DML, DDL and anything else."""
    while isinstance(tree, exp.Subquery) and not tree.args.get("alias"):
        tree = tree.this
    match tree:
        case exp.Select():
            return tree
        case exp.SetOperation():
            word = type(tree).__name__.upper()
            raise errors.unsupported(f"{word} is not available", hint="create one query per branch")
        case None:
            raise errors.empty_text()
        case _:
            word = tree.key.upper() if not isinstance(tree, exp.Command) else str(tree.this).upper()
            raise errors.not_a_query(word)


def refuse_parts(select: exp.Select, *, analytic: bool) -> None:
    """Raise SqlError for the first part of the query that has no streaming meaning.

    `analytic` allows OVER, which needs the window of the CQL form.
    """
    for node in select.walk():
        problem = _problem(node, analytic)
        if problem is not None:
            raise problem


def _problem(node: exp.Expr, analytic: bool) -> SqlError | None:
    match node:
        case exp.Select() | exp.Table() | exp.Subquery():
            return _clause_problem(node) or _place_problem(node)
        case exp.SetOperation():
            word = type(node).__name__.upper()
            return errors.unsupported(f"{word} is not available", hint="create one query per branch")
        case exp.Exists():
            return _subquery_problem(node)
        case exp.Placeholder() | exp.Parameter():
            return errors.unsupported(
                f"the parameter {render(node)} has no value", hint="write the value into the text"
            )
        case exp.Window() if not analytic:
            hint = (
                "write the stream as `stream [RANGE 10 SECONDS]`: the function then sees one window at a time"
            )
            return errors.unsupported(f"{_head(node)} OVER (...) never ends on a stream", hint=hint)
        case exp.Window() if isinstance(node.args.get("alias"), exp.Identifier):
            return errors.unsupported("the WINDOW clause is not available", hint="write it inside OVER (...)")
        case exp.Anonymous():
            return _function_problem(node)
        case exp.Cast() if _names_a_moment(node):
            return errors.nondeterministic(render(node), span_of_node(node))
        case exp.Column() | exp.Identifier() if node.name.lower().startswith("__headrace"):
            return errors.reserved_column(node.name)
    if isinstance(node, _CLOCKS):
        return errors.nondeterministic(render(node), span_of_node(node))
    return None


def _clause_problem(node: exp.Expr) -> SqlError | None:
    for clause, (what, hint) in _CLAUSES.items():
        if node.args.get(clause):
            return errors.unsupported(what, hint=hint)
    if isinstance(node, exp.Select) and node.args.get("kind"):
        return errors.unsupported(f"SELECT AS {node.args['kind']} is not available")
    return None


def _place_problem(node: exp.Expr) -> SqlError | None:
    """A SELECT may stand at the top or in FROM, nowhere else."""
    if isinstance(node, exp.Table) or node.parent is None:
        return None
    if isinstance(node.parent, exp.From | exp.Join | exp.Subquery | exp.CTE):
        return None
    return _subquery_problem(node)


def _subquery_problem(node: exp.Expr) -> SqlError:
    return errors.unsupported(
        f"the subquery {_short(render(node))} is not in FROM",
        hint="only a subquery in FROM has a streaming meaning",
    )


def _function_problem(node: exp.Anonymous) -> SqlError | None:
    name = function_name(node) or ""
    if name in NONDETERMINISTIC or (name == "unix_timestamp" and not node.expressions):
        return errors.nondeterministic(f"{name}()", span_of_node(node))
    if name == "aes_encrypt" and not _is_repeatable_cipher(node.expressions):
        return errors.nondeterministic("aes_encrypt() with an IV of its own", span_of_node(node))
    if name in READS_WITH_OPTIONS and len(node.expressions) > 2:
        return errors.unsupported(
            f"{name}() with options may read a file",
            hint="leave the options out",
            span=span_of_node(node),
        )
    if name in GENERATORS:
        return errors.unsupported(
            f"{name}() makes many rows of one",
            hint="give the stream one row per element",
            span=span_of_node(node),
        )
    return None


def _is_repeatable_cipher(arguments: list[exp.Expr]) -> bool:
    """Whether `aes_encrypt(text, key, mode, padding, iv, ...)` takes no random IV: in ECB mode, or with a constant one.

    An IV from a column may be empty in some tuple, and Spark makes a random one then.
    """
    mode = _constant_text(arguments[2]) if len(arguments) > 2 else None
    if mode is not None and mode.upper() == "ECB":
        return True
    if len(arguments) < 5 or arguments[4].find(exp.Column) is not None:
        return False
    return _constant_text(arguments[4]) != "" and not isinstance(arguments[4].unnest(), exp.Null)


def _names_a_moment(node: exp.Cast) -> bool:
    """Whether `node` is `TIMESTAMP 'now'` or `CAST('today' AS DATE)`."""
    inner = node.this.unnest()
    moment = isinstance(inner, exp.Literal) and inner.meta.get("string") and names_a_moment(str(inner.this))
    return bool(moment) and node.to.this in (*exp.DataType.TEMPORAL_TYPES, exp.DType.DATE)


def _constant_text(node: exp.Expr) -> str | None:
    inner = node.unnest()
    if not isinstance(inner, exp.Literal) or not inner.meta.get("string"):
        return None
    return str(inner.this)[1:-1]


def span_of_node(node: exp.Expr) -> tuple[int, int] | None:
    """(line, column) where a node begins, if the parser kept it."""
    for found in (node, *node.find_all(exp.Identifier)):
        meta = found.meta
        if "line" in meta:
            return meta["line"], max(meta["col"] - (meta["end"] - meta["start"]), 1)
    return None


def _head(node: exp.Window) -> str:
    return _short(render(node.this))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
