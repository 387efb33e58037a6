"""Scripts and prompts are cut into statements by tokens."""

import pytest

from headrace.cli.statements import Statement, read_prompt, split_statements
from headrace.model.errors import SqlError


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" ; ;\n;", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT ';' ; SELECT `a;b`", ["SELECT ';'", "SELECT `a;b`"]),
        ("SELECT 1 -- a; b\n+ 2;", ["SELECT 1 -- a; b\n+ 2"]),
        ("SELECT 1 /* ; */ ;", ["SELECT 1"]),
        (
            "CREATE QUERY q AS SELECT SUM(price) FROM p [RANGE 5 SECONDS SLIDE 2 SECONDS];SHOW QUERIES;",
            ["CREATE QUERY q AS SELECT SUM(price) FROM p [RANGE 5 SECONDS SLIDE 2 SECONDS]", "SHOW QUERIES"],
        ),
        ("SHOW STREAMS;EXPLAIN q;DROP QUERY q", ["SHOW STREAMS", "EXPLAIN q", "DROP QUERY q"]),
        ("SELECT 'größer; ü';SELECT 2", ["SELECT 'größer; ü'", "SELECT 2"]),
    ],
)
def test_split(script, expected):
    assert [statement.text for statement in split_statements(script)] == expected


def test_lines_count_from_the_start_of_the_script():
    assert split_statements("A;\n\n B\n;C") == (Statement("A", 1), Statement("B", 3), Statement("C", 4))


def test_open_quote_is_an_error_with_a_hint():
    with pytest.raises(SqlError) as caught:
        split_statements("SELECT 'x")
    assert caught.value.hint


def prompted(lines):
    """What a prompt runs when a person types `lines`; an exception among them is raised."""
    typed, prompts, ran = iter(lines), [], []

    def read(prompt):
        prompts.append(prompt)
        line = next(typed, EOFError())
        if isinstance(line, BaseException):
            raise line
        return line

    read_prompt(read, ran.append)
    return ran, prompts


def test_prompt_waits_for_the_semicolon():
    ran, prompts = prompted(["SELECT 'a;", "b'", "  ;", "SHOW STREAMS; SHOW QUERIES;"])
    assert ran == ["SELECT 'a;\nb'", "SHOW STREAMS", "SHOW QUERIES"]
    assert [prompt.strip() for prompt in prompts[:4]] == ["headrace>", "...>", "...>", "headrace>"]


@pytest.mark.parametrize("word", ["quit", "EXIT;", "\\q"])
def test_prompt_can_be_left(word):
    assert prompted([word, "SHOW STREAMS;"])[0] == []


def test_ctrl_c_forgets_the_unfinished_statement():
    assert prompted(["SELECT nonsense", KeyboardInterrupt(), "SHOW STREAMS;"])[0] == ["SHOW STREAMS"]


def test_ctrl_c_never_leaves_the_prompt():
    assert prompted([KeyboardInterrupt(), KeyboardInterrupt(), "SHOW STREAMS;"])[0] == ["SHOW STREAMS"]


@pytest.mark.parametrize(
    ("typed", "ran"),
    [("help", "HELP"), ("HELP;", "HELP"), ("?", "HELP"), ("help create stream", "HELP create stream")],
)
def test_help_works_as_typed(typed, ran):
    assert prompted([typed])[0] == [ran]


def test_help_inside_a_statement_is_a_word_of_it():
    assert prompted(["SELECT *", "help", "FROM q;"])[0] == ["SELECT *\nhelp\nFROM q"]


def test_prompt_ignores_blank_lines():
    assert prompted(["", "   ", "SHOW STREAMS;"])[0] == ["SHOW STREAMS"]
