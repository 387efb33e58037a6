"""The text that a person wrote, made to read the log: only relations and windows are replaced, token by token.

`log_sql` of a plan is what the audit compares with and what a fallback runs. Where it can be, it is the query's own
text and not a rendering of how we understood it, so that a misunderstanding cannot hide. Each stream's name becomes a
relation of its tuples, once per window that is asked for, with the window as a column `window`, and each call of
`window(...)` becomes that column. A CQL query gets what its brackets mean: the edges of the window, and groups within
windows.

None is returned for what has no such form: sessions, analytic functions in CQL, `*` as an argument of a call, ordinals
in a CQL query's GROUP BY, outer joins in CQL. Then `log_sql` is a rendering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.model.query import CLOSED_COLUMN, WINDOW_COLUMN, Stream, log_relation
from headrace.sql.dialect import Token, TokenType
from headrace.sql.flatten import find_stream, source_of
from headrace.sql.functions import function_name
from headrace.sql.lexer import Lexed
from headrace.sql.names import quote_name
from headrace.sql.render import LIVE_WINDOWS, windowed_relation
from headrace.sql.resolve import is_aggregated
from headrace.sql.shape import Lifted
from headrace.sql.templates import LONGEST_HOLE, WINDOW_HOLE, Template, literal_hole, side_hole
from headrace.sql.windows import WINDOW_FUNCTIONS

_WINDOW = "`window`"
_BEFORE_STAR = frozenset((TokenType.SELECT, TokenType.DISTINCT, TokenType.ALL, TokenType.COMMA))
_STAR_OPERANDS = _BEFORE_STAR | {TokenType.DOT, TokenType.L_PAREN}
_TAIL = frozenset((TokenType.GROUP_BY, TokenType.HAVING))
_OPENING = frozenset((TokenType.L_PAREN, TokenType.L_BRACKET))
_CLOSING = frozenset((TokenType.R_PAREN, TokenType.R_BRACKET))


class NoOriginal(Exception):
    """The text cannot be run over the log as it is written."""


def original_log(
    select: exp.Select,
    lexed: Lexed,
    lifted: Lifted,
    streams: Sequence[Stream],
    *,
    windowed: bool,
    session: bool,
) -> Template | None:
    """`lexed` over the logs of `streams`, which are those of the query in its order; None when there is no such text.

    `select` is its tree with CTEs inlined. `windowed` says that only the windows of a run count, otherwise all tuples
    do.
    """
    if session:
        return None
    editor = _Editor(lexed, lifted, streams, windowed)
    try:
        editor.relations(select)
        if lexed.brackets:
            editor.brackets(select)
        elif windowed:
            editor.window_calls(select)
    except NoOriginal:
        return None
    return editor.template()


@dataclass(slots=True)
class _Editor:
    lexed: Lexed
    lifted: Lifted
    streams: Sequence[Stream]
    windowed: bool
    edits: dict[tuple[int, int], str] = field(default_factory=dict)

    # places in the text

    def _replace(self, start: int, end: int, text: str) -> None:
        self.edits[start, end] = text

    def _insert(self, place: int, text: str) -> None:
        self.edits[place, place] = self.edits.get((place, place), "") + text

    @property
    def _tokens(self) -> list[Token]:
        return self.lexed.tokens

    def _index(self, start: int | None) -> int:
        for index, token in enumerate(self._tokens):
            if token.start == start:
                return index
        raise NoOriginal

    def _closing(self, opening: int) -> int:
        """The index of the parenthesis that closes the one at `opening`."""
        depth = 0
        for index in range(opening, len(self._tokens)):
            kind = self._tokens[index].token_type
            depth += (kind in _OPENING) - (kind in _CLOSING)
            if depth == 0:
                return index
        raise NoOriginal

    def _clauses(self, select: exp.Select) -> Iterator[tuple[int, TokenType]]:
        """(index, kind) of the tokens of a SELECT that are in no parentheses within it, after its first."""
        depth, first = 0, self._index(_start(select))
        for index in range(first + 1, len(self._tokens)):
            kind = self._tokens[index].token_type
            if kind in _CLOSING and depth == 0:
                return
            if depth == 0:
                yield index, kind
            depth += (kind in _OPENING) - (kind in _CLOSING)

    def _clause(self, select: exp.Select, *kinds: TokenType) -> int | None:
        return next((index for index, kind in self._clauses(select) if kind in kinds), None)

    def _end(self, select: exp.Select) -> int:
        """The place after the last token of a SELECT."""
        first = self._index(_start(select))
        depth, last = 0, first
        for index in range(first, len(self._tokens)):
            kind = self._tokens[index].token_type
            if kind in _CLOSING and depth == 0:
                break
            depth += (kind in _OPENING) - (kind in _CLOSING)
            last = index
        return self._after(last)

    def _after(self, index: int) -> int:
        """The place after a token, and after the bracket that follows it."""
        place = self._tokens[index].end + 1
        return next((b.place[1] for b in self.lexed.brackets if b.after == index + 1), place)

    # what is replaced

    def relations(self, select: exp.Select) -> None:
        """Every stream's name as the relation of its tuples."""
        known = {str(stream.name): stream for stream in self.streams}
        for bracket in self.lexed.brackets:
            self._replace(*bracket.place, "")
        for side, table in enumerate(self._tables(select)):
            stream = find_stream(table, known)
            start, end = (
                part.meta.get(key) for part, key in ((table.parts[0], "start"), (table.parts[-1], "end"))
            )
            if start is None or end is None:
                raise NoOriginal
            hole = side_hole(side) if len(self.lexed.brackets) and self._joined(select) else WINDOW_HOLE
            text = self._relation(stream, hole)
            if table.args.get("alias") is None:
                text += f" AS {quote_name(table.name)}"
            self._replace(start, end + 1, text)

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
        selects = {_start(found): found for found in select.find_all(exp.Select)}
        shown: set[int] = set()
        for found in selects.values():
            if not _calls(found):
                continue
            for call in _calls(found):
                first = self._index(call.meta.get("start"))
                last = self._closing(first + 1)
                self._replace(self._tokens[first].start, self._tokens[last].end + 1, _WINDOW)
            inner = _source(found)
            while isinstance(inner, exp.Select):
                shown.add(_start(inner))
                inner = _source(inner)
        for start in shown:
            self._pass_on(selects[start])
        self._stars(selects, shown)

    def _pass_on(self, select: exp.Select) -> None:
        place = self._clause(select, TokenType.FROM)
        if place is None or select.args.get("distinct") or is_aggregated(select):
            raise NoOriginal
        self._insert(self._tokens[place].start, f", {_WINDOW} ")

    def _stars(self, selects: Mapping[int, exp.Select], shown: set[int]) -> None:
        """`*` without the column, where what it stands for has it."""
        known: set[int] = set()
        for select in selects.values():
            stop = self._clause(select, TokenType.FROM)
            visible = [name for source, name in _sources(select) if self._shows(source, shown)]
            for index, kind in self._clauses(select):
                if index == stop:
                    break
                if kind is TokenType.STAR and self._is_star(index):
                    known.add(index)
                    if self._names_one_of(index, visible):
                        self._except(index)
        stars = (i for i, token in enumerate(self._tokens) if token.token_type is TokenType.STAR)
        inside = (index for index in stars if self._is_star(index) and index not in known)
        if any(self._tokens[index - 2].text.lower() != "count" for index in inside):
            raise NoOriginal

    def _shows(self, source: exp.Table | exp.Select | None, shown: set[int]) -> bool:
        return isinstance(source, exp.Table) or (source is not None and source.meta.get("select") in shown)

    def _is_star(self, index: int) -> bool:
        """Whether the token stands for columns and does not multiply."""
        return self._tokens[index - 1].token_type in _STAR_OPERANDS

    def _names_one_of(self, star: int, visible: Sequence[str | None]) -> bool:
        if self._tokens[star - 1].token_type is not TokenType.DOT:
            return bool(visible)
        qualifier = self._tokens[star - 2].text.strip("`").lower()
        return any(name is not None and name.lower() == qualifier for name in visible)

    def _except(self, star: int) -> None:
        after = self._tokens[star + 1 : star + 3]
        if after and after[0].token_type is TokenType.EXCEPT:
            if len(after) < 2 or after[1].token_type is not TokenType.L_PAREN:
                raise NoOriginal
            self._insert(after[1].end + 1, f"{_WINDOW}, ")
        else:
            self._insert(self._tokens[star].end + 1, f" EXCEPT ({_WINDOW})")

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
            self._stars({_start(select): select}, set())
        end = f"{quote_name(names[0])}.{_WINDOW}.end"
        start = f"{end} - {LONGEST_HOLE}" if joined else f"{quote_name(names[0])}.{_WINDOW}.start"
        first = self._index(_start(select))
        while self._tokens[first + 1].token_type in (TokenType.DISTINCT, TokenType.ALL):
            first += 1
        self._insert(self._tokens[first].end + 1, f" {start} AS window_start, {end} AS window_end,")
        if joined:
            ends = " AND ".join(f"{end} = {quote_name(name)}.{_WINDOW}.end" for name in names[1:])
            self._condition(select, ends)
        if is_aggregated(select):
            self._group(select, end if joined else f"{quote_name(names[0])}.{_WINDOW}")

    def _joined(self, select: exp.Select) -> list[exp.Join]:
        return list(select.args.get("joins") or ())

    def _has_star(self, select: exp.Select) -> bool:
        stars = (index for index, token in enumerate(self._tokens) if token.token_type is TokenType.STAR)
        return any(
            self._is_star(index) and self._tokens[index - 2].text.lower() != "count" for index in stars
        )

    def _condition(self, select: exp.Select, condition: str) -> None:
        """`condition` in WHERE, before what is there."""
        where, tail = self._clause(select, TokenType.WHERE), self._clause(select, *_TAIL)
        stop = self._end(select) if tail is None else self._tokens[tail].start
        if where is None:
            self._insert(stop, f" WHERE {condition} ")
            return
        self._insert(self._tokens[where].end + 1, f" {condition} AND (")
        last = (len(self._tokens) if tail is None else tail) - 1
        self._insert(self._after(last) if tail is None else self._tokens[last].end + 1, ")")

    def _group(self, select: exp.Select, key: str) -> None:
        clause = select.args.get("group")
        having = self._clause(select, TokenType.HAVING)
        if clause is None:
            stop = self._end(select) if having is None else self._tokens[having].start
            self._insert(stop, f" GROUP BY {key} ")
            return
        other = any(value for name, value in clause.args.items() if name != "expressions")
        if other or any(isinstance(part.unnest(), exp.Literal) for part in clause.expressions):
            raise NoOriginal
        place = self._clause(select, TokenType.GROUP_BY)
        if place is None:
            raise NoOriginal
        self._insert(self._tokens[place].end + 1, f" {key},")

    # the result

    def template(self) -> Template:
        """The text with its edits, and holes for the literals that are lifted out of its shape."""
        tokens, source = self._tokens, self.lexed.source
        edits = dict(self.edits)
        replaced = [place for place in edits if place[0] < place[1]]
        for token in tokens:
            slot = self.lifted.slots.get(token.start)
            if slot in self.lifted.lifted and not any(a <= token.start < b for a, b in replaced):
                edits[token.start, token.start + len(self.lifted.literals[slot or 0])] = literal_hole(
                    slot or 0
                )
        out, place = [], tokens[0].start
        for start, end in sorted(edits):
            out += [source[place:start], edits[start, end]]
            place = end
        out.append(
            source[place : self._after(len(tokens) - 1)] if place <= self._after(len(tokens) - 1) else ""
        )
        return Template.of("".join(out))


def _start(select: exp.Select) -> int:
    """Where its word SELECT is in the text."""
    start = select.meta.get("select")
    if not isinstance(start, int):
        raise NoOriginal
    return start


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
