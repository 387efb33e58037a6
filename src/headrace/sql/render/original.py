"""The text that a person wrote, made to read the log: only relations and windows are replaced, token by token.

`log_sql` of a plan is what the audit compares with and what a fallback runs. Where it can be, it is the query's own
text and not a rendering of how we understood it, so that a misunderstanding cannot hide. Each stream's name becomes a
relation of its tuples, once per window that is asked for, with the window as a column `window`, and each call of
`window(...)` becomes that column. A CQL query gets what its brackets mean: the edges of the window, and groups within
windows.

The session of a tuple hangs on WHERE and on the other keys, so these are written a second time, in the relation.

None is returned for what has no such form: sessions over subqueries or by the alias of a key, analytic functions in
CQL, `*` as an argument of a call, ordinals in a CQL query's GROUP BY, outer joins in CQL. Then `log_sql` is a
rendering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.model.query import CLOSED_COLUMN, WINDOW_COLUMN, Stream, log_relation
from headrace.sql.bodies.sessions import LIVE_SESSIONS, session_relation
from headrace.sql.bodies.windows import WINDOW_FUNCTIONS
from headrace.sql.render.determined import fix_text
from headrace.sql.render.plain import LIVE_WINDOWS, windowed_relation
from headrace.sql.render.templates import LONGEST_HOLE, WINDOW_HOLE, Template, side_hole
from headrace.sql.resolve.columns import is_aggregated
from headrace.sql.resolve.flatten import find_stream, source_of
from headrace.sql.resolve.functions import function_name
from headrace.sql.shape import Lifted
from headrace.sql.text.dialect import TokenType
from headrace.sql.text.edits import EditedText, NoOriginal, start_of
from headrace.sql.text.lexer import Lexed
from headrace.sql.text.names import quote_name

_WINDOW, _SESSION = "`window`", "`session_window`"
_BEFORE_STAR = frozenset((TokenType.SELECT, TokenType.DISTINCT, TokenType.ALL, TokenType.COMMA))
_STAR_OPERANDS = _BEFORE_STAR | {TokenType.DOT, TokenType.L_PAREN}
_TAIL = frozenset((TokenType.GROUP_BY, TokenType.HAVING))


def original_log(
    select: exp.Select,
    lexed: Lexed,
    lifted: Lifted,
    streams: Sequence[Stream],
    *,
    windowed: bool,
    session: bool,
    fixed: bool,
) -> Template | None:
    """`lexed` over the logs of `streams`, which are those of the query in its order; None when there is no such text.

    `select` is its tree with CTEs inlined. `windowed` says that only the windows of a run count, otherwise all tuples
    do. `fixed` says that answers which Spark leaves open are fixed.
    """
    editor = _Editor(EditedText(lexed, lifted), streams, windowed)
    try:
        if fixed:
            fix_text(editor.text, select)
        if session:
            editor.sessions(select)
            return editor.text.template()
        editor.relations(select)
        if lexed.brackets:
            editor.brackets(select)
        elif windowed:
            editor.window_calls(select)
    except NoOriginal:
        return None
    return editor.text.template()


@dataclass(slots=True)
class _Editor:
    text: EditedText
    streams: Sequence[Stream]
    windowed: bool

    # what is replaced

    def relations(self, select: exp.Select) -> None:
        """Every stream's name as the relation of its tuples."""
        known = {str(stream.name): stream for stream in self.streams}
        for bracket in self.text.lexed.brackets:
            self.text.replace(*bracket.place, "")
        for side, table in enumerate(self._tables(select)):
            stream = find_stream(table, known)
            hole = side_hole(side) if len(self.text.lexed.brackets) and self._joined(select) else WINDOW_HOLE
            text = self._relation(stream, hole)
            if table.args.get("alias") is None:
                text += f" AS {quote_name(table.name)}"
            self.text.replace(*_span(table), text)

    def _tables(self, select: exp.Select) -> list[exp.Table]:
        """The streams in the query, in the order of the text; a CTE that is used twice has its streams once."""
        found = {table.parts[0].meta.get("start", -1): table for table in select.find_all(exp.Table)}
        return [found[start] for start in sorted(found)]

    def _relation(self, stream: Stream, hole: str) -> str:
        number = log_relation(self.streams.index(stream))
        if not self.windowed:
            return f"(SELECT * EXCEPT ({CLOSED_COLUMN}) FROM {number})"
        if any(column.name.lower() == "window" for column in stream.columns):
            raise NoOriginal
        shown = f"* EXCEPT ({CLOSED_COLUMN}, {WINDOW_COLUMN}), {WINDOW_COLUMN} AS {_WINDOW}"
        return f"(SELECT {shown} FROM {windowed_relation(stream, number, hole=hole)} WHERE {LIVE_WINDOWS})"

    def window_calls(self, select: exp.Select) -> None:
        """Every call of `window(...)` as the column, which subqueries pass on and `*` does not show."""
        selects = {start_of(found): found for found in select.find_all(exp.Select)}
        shown: set[int] = set()
        for found in selects.values():
            if not _calls(found):
                continue
            for call in _calls(found):
                self._call(call, _WINDOW)
            inner = _source(found)
            while isinstance(inner, exp.Select):
                shown.add(start_of(inner))
                inner = _source(inner)
        for start in shown:
            self._pass_on(selects[start])
        self._stars(selects, shown)

    def _pass_on(self, select: exp.Select) -> None:
        place = self.text.clause(select, TokenType.FROM)
        if place is None or select.args.get("distinct") or is_aggregated(select):
            raise NoOriginal
        self.text.insert(self.text.tokens[place].start, f", {_WINDOW} ")

    def _stars(self, selects: Mapping[int, exp.Select], shown: set[int]) -> None:
        """`*` without the column, where what it stands for has it."""
        known: set[int] = set()
        for select in selects.values():
            stop = self.text.clause(select, TokenType.FROM)
            visible = [name for source, name in _sources(select) if self._shows(source, shown)]
            for index, kind in self.text.clauses(select):
                if index == stop:
                    break
                if kind is TokenType.STAR and self._is_star(index):
                    known.add(index)
                    if self._names_one_of(index, visible):
                        self._except(index)
        stars = (i for i, token in enumerate(self.text.tokens) if token.token_type is TokenType.STAR)
        inside = (index for index in stars if self._is_star(index) and index not in known)
        if any(self.text.tokens[index - 2].text.lower() != "count" for index in inside):
            raise NoOriginal

    def _shows(self, source: exp.Table | exp.Select | None, shown: set[int]) -> bool:
        return isinstance(source, exp.Table) or (source is not None and source.meta.get("select") in shown)

    def _is_star(self, index: int) -> bool:
        """Whether the token stands for columns and does not multiply."""
        return self.text.tokens[index - 1].token_type in _STAR_OPERANDS

    def _names_one_of(self, star: int, visible: Sequence[str | None]) -> bool:
        if self.text.tokens[star - 1].token_type is not TokenType.DOT:
            return bool(visible)
        qualifier = self.text.tokens[star - 2].text.strip("`").lower()
        return any(name is not None and name.lower() == qualifier for name in visible)

    def _except(self, star: int) -> None:
        after = self.text.tokens[star + 1 : star + 3]
        if after and after[0].token_type is TokenType.EXCEPT:
            if len(after) < 2 or after[1].token_type is not TokenType.L_PAREN:
                raise NoOriginal
            self.text.insert(after[1].end + 1, f"{_WINDOW}, ")
        else:
            self.text.insert(self.text.tokens[star].end + 1, f" EXCEPT ({_WINDOW})")

    # sessions

    def sessions(self, select: exp.Select) -> None:
        """One SELECT over one stream, grouped by sessions: the session of each tuple as a column of the relation."""
        (table, *others) = self._tables(select)
        stream = find_stream(table, {str(stream.name): stream for stream in self.streams})
        taken = {column.name.lower() for column in stream.columns}
        if (
            others
            or len(list(select.find_all(exp.Select))) > 1
            or "session_window" in taken
            or self._has_star(select)
        ):
            raise NoOriginal
        if any(function_name(call) == "window_time" for call in select.find_all(exp.Anonymous)):
            raise NoOriginal  # it wants a column that Spark itself has made of `session_window(...)`
        keys = self._session_keys(select, _name(table), taken)
        where, tail = self.text.clause(select, TokenType.WHERE), self.text.clause(select, *_TAIL)
        stop = self.text.last(select) + 1 if tail is None else tail
        conditions = [] if where is None else [f"({self.text.written(where + 1, stop)})"]
        log = log_relation(0)
        relation = session_relation(stream, log, conditions, keys, alias=quote_name(_name(table)))
        text = f"(SELECT *, {WINDOW_COLUMN} AS {_SESSION} FROM {relation} WHERE {LIVE_SESSIONS})"
        if table.args.get("alias") is None:
            text += f" AS {quote_name(table.name)}"
        self.text.replace(*_span(table), text)
        for call in _calls(select):
            self._call(call, _SESSION)
        for bracket in self.text.lexed.brackets:
            self.text.replace(*bracket.place, "")
            self._edges(select, *(f"{_SESSION}.{edge}" for edge in ("start", "end")))
            self._group(select, _SESSION)

    def _session_keys(self, select: exp.Select, qualifier: str, taken: set[str]) -> list[str]:
        """The texts of the keys that are not the session itself; they must be about the stream's columns."""
        clause = select.args.get("group")
        place = self.text.clause(select, TokenType.GROUP_BY)
        if clause is None or place is None:
            return []
        if any(value for name, value in clause.args.items() if name != "expressions"):
            raise NoOriginal
        having = self.text.clause(select, TokenType.HAVING)
        stop = self.text.last(select) + 1 if having is None else having
        commas = [i for i, kind in self.text.clauses(select) if kind is TokenType.COMMA and place < i < stop]
        edges = zip([place, *commas], [*commas, stop], strict=True)
        texts = [self.text.written(first + 1, end) for first, end in edges]
        sessions = {item.alias.lower() for item in select.expressions if _is_session(item.unalias())}
        if len(texts) != len(clause.expressions):
            raise NoOriginal
        keys = []
        for node, text in zip(clause.expressions, texts, strict=True):
            columns = list(node.find_all(exp.Column))
            if _is_session(node) or (isinstance(node, exp.Column) and node.name.lower() in sessions - taken):
                continue
            if not columns or any(
                c.parts[0].name.lower() not in {*taken, qualifier.lower()} for c in columns
            ):
                raise NoOriginal
            keys.append(text)
        return keys

    def _call(self, call: exp.Anonymous, column: str) -> None:
        """A call of `window(...)` as a column."""
        first = self.text.index(call.meta.get("start"))
        last = self.text.closing(first + 1)
        self.text.replace(self.text.tokens[first].start, self.text.tokens[last].end + 1, column)

    # CQL

    def brackets(self, select: exp.Select) -> None:
        """The edges of the window before the select list, its groups within windows, and joins within windows."""
        if len(list(select.find_all(exp.Select))) > 1 or select.find(exp.Window) is not None:
            raise NoOriginal
        names = [_name(table) for table in self._tables(select)]
        joined = self._joined(select)
        if joined and (any(map(_is_outer, joined)) or self._has_star(select)):
            raise NoOriginal
        if not joined:
            self._stars({start_of(select): select}, set())
        end = f"{quote_name(names[0])}.{_WINDOW}.end"
        start = f"{end} - {LONGEST_HOLE}" if joined else f"{quote_name(names[0])}.{_WINDOW}.start"
        self._edges(select, start, end)
        if joined:
            ends = " AND ".join(f"{end} = {quote_name(name)}.{_WINDOW}.end" for name in names[1:])
            self._condition(select, ends)
        if is_aggregated(select):
            self._group(select, end if joined else f"{quote_name(names[0])}.{_WINDOW}")

    def _edges(self, select: exp.Select, start: str, end: str) -> None:
        """The edges of the window before the select list."""
        first = self.text.index(start_of(select))
        while self.text.tokens[first + 1].token_type in (TokenType.DISTINCT, TokenType.ALL):
            first += 1
        place = self.text.tokens[first].end + 1
        self.text.insert(place, f" {start} AS window_start, {end} AS window_end,")

    def _joined(self, select: exp.Select) -> list[exp.Join]:
        return list(select.args.get("joins") or ())

    def _has_star(self, select: exp.Select) -> bool:
        stars = (index for index, token in enumerate(self.text.tokens) if token.token_type is TokenType.STAR)
        return any(
            self._is_star(index) and self.text.tokens[index - 2].text.lower() != "count" for index in stars
        )

    def _condition(self, select: exp.Select, condition: str) -> None:
        """`condition` in WHERE, before what is there."""
        where, tail = self.text.clause(select, TokenType.WHERE), self.text.clause(select, *_TAIL)
        stop = self.text.after(self.text.last(select)) if tail is None else self.text.tokens[tail].start
        if where is None:
            self.text.insert(stop, f" WHERE {condition} ")
            return
        self.text.insert(self.text.tokens[where].end + 1, f" {condition} AND (")
        last = (len(self.text.tokens) if tail is None else tail) - 1
        self.text.insert(self.text.after(last) if tail is None else self.text.tokens[last].end + 1, ")")

    def _group(self, select: exp.Select, key: str) -> None:
        clause = select.args.get("group")
        having = self.text.clause(select, TokenType.HAVING)
        if clause is None:
            stop = (
                self.text.after(self.text.last(select)) if having is None else self.text.tokens[having].start
            )
            self.text.insert(stop, f" GROUP BY {key} ")
            return
        other = any(value for name, value in clause.args.items() if name != "expressions")
        sets = (exp.Rollup, exp.Cube, exp.GroupingSets)
        keys = [
            key for part in clause.expressions for key in (part.walk() if isinstance(part, sets) else [part])
        ]
        if other or any(isinstance(key.unnest(), exp.Literal) for key in keys):
            raise NoOriginal
        place = self.text.clause(select, TokenType.GROUP_BY)
        if place is None:
            raise NoOriginal
        self.text.insert(self.text.tokens[place].end + 1, f" {key},")


def _span(table: exp.Table) -> tuple[int, int]:
    """Where a table's name begins and ends."""
    start, end = table.parts[0].meta.get("start"), table.parts[-1].meta.get("end")
    if start is None or end is None:
        raise NoOriginal
    return start, end + 1


def _is_session(node: exp.Expr) -> bool:
    return function_name(node) in WINDOW_FUNCTIONS


def _calls(select: exp.Select) -> list[exp.Anonymous]:
    """The calls of `window(...)` in a SELECT itself, not in its subqueries."""
    parts = [*select.expressions, *(select.args.get(name) for name in ("where", "group", "having"))]
    return [
        call
        for part in parts
        if part is not None
        for call in part.find_all(exp.Anonymous)
        if function_name(call) in WINDOW_FUNCTIONS
    ]


def _source(select: exp.Select) -> exp.Table | exp.Select:
    if select.args.get("joins"):
        raise NoOriginal
    return source_of(select).relation


def _sources(select: exp.Select) -> Iterator[tuple[exp.Table | exp.Select | None, str | None]]:
    """(relation, name) of what a SELECT reads."""
    relations = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or ())]
    for relation in relations:
        inner = relation.this if isinstance(relation, exp.Subquery) else relation
        yield inner if isinstance(inner, exp.Table | exp.Select) else None, relation.alias_or_name or None


def _name(table: exp.Table) -> str:
    return str(table.alias_or_name)


def _is_outer(join: exp.Join) -> bool:
    """Whether a join is more than a product of its sides under its conditions."""
    kind = str(join.args.get("kind") or "").upper()
    return bool(join.args.get("side") or join.args.get("using") or join.args.get("method")) or kind not in (
        "", "INNER", "CROSS",
    )  # fmt: skip
