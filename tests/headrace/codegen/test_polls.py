"""Where loops look whether the run is stopped.

Property    between two looks lie a few blocks of turns, whatever loops stand in whatever loops and helpers; and a function
            that is not stopped does what it did without looks
Method      random nests of loops with helpers, `break`, `continue` and `else`, as plain Python: each turn of each loop is
            counted, and each look ends the count
Cannot see  what the compiler makes of it: `test_failing` and `tests/headrace/runtime/test_stopped_in_a_function.py` stop
            compiled functions
"""

from __future__ import annotations

import ast
import random

import pytest

from headrace.codegen.rewriting import polls
from planted_mistakes import planted
from support.campaign import rarely

MOST_TURNS = 20_000


class OutOfTurns(Exception):
    """A nest has had as many turns as a test takes."""


class Nests:
    """Draws helpers, each of which may call those before it, and a function that may call all."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.helpers = 0

    def function(self, name):
        return f"def {name}():\n" + "\n".join(f"    {line}" for line in self.block(3))

    def block(self, depth):
        lines = []
        for _ in range(self.draw.randint(1, 2)):
            lines += self.statement(depth)
        return lines

    def statement(self, depth):
        call = [f"helper_{self.draw.randrange(self.helpers)}()"] if self.helpers else ["tell()"]
        if depth == 0:
            return self.draw.choice([["tell()"], ["tell()"], call])
        kind = self.draw.randrange(6)
        if kind == 0:
            return call
        if kind == 1:
            tests = self.draw.choice(["odd()", "often()"]), self.draw.choice(["break", "continue", "pass"])
            return [f"if {tests[0]}:", *indented(self.block(depth - 1))] + (
                [f"if {tests[0]}:", f"    {tests[1]}"] if self.in_loop else []
            )
        loop = self.draw.choice(
            ["for i in range(3):", "for i in range(900):", "for i in range(900, 0, -1):", "for i in range(1100):",
             "for i in range(count()):", "for i in (1, 2, 3):", "while often():", "for i in [x for x in range(2)]:"]
        )  # fmt: skip
        was, self.in_loop = self.in_loop, True
        lines = [loop, "    turn()", *indented(self.block(depth - 1))]
        self.in_loop = was
        return lines + (["else:", "    tell()"] if self.draw.random() < 0.3 else [])

    in_loop = False


def indented(lines):
    return [f"    {line}" for line in lines]


def nest(seed):
    """Its functions, as text: helpers, and the function last."""
    nests = Nests(seed)
    texts = []
    for number in range(2):
        texts.append(nests.function(f"helper_{number}"))
        nests.helpers = number + 1
    return [*texts, nests.function("function")]


def with_polls(texts):
    turns, result = {}, []
    for text in texts:
        (definition,) = ast.parse(text).body
        turns[definition.name] = polls.add_polls(definition.body, "stopped()", "return", turns)
        result.append(ast.unparse(ast.fix_missing_locations(definition)))
    return result


def ran(texts, seed):
    """What a function has told, and the most turns between two looks."""
    draw, told, state = random.Random(seed), [], {"turns": 0, "since": 0, "most": 0}

    def turn():
        state["turns"] += 1
        state["since"] += 1
        state["most"] = max(state["most"], state["since"])
        if state["turns"] > MOST_TURNS:
            raise OutOfTurns

    def stopped():
        state["since"] = 0
        return False

    names = {
        "turn": turn,
        "stopped": stopped,
        "tell": lambda: told.append(state["turns"]),
        "odd": lambda: draw.random() < 0.3,
        "often": lambda: draw.random() < 0.999,
        "count": lambda: draw.choice([0, 2, 50, 5_000]),
    }
    exec("\n".join(texts), names)
    try:
        names["function"]()
    except OutOfTurns:
        told.append("goes on")
    return told, state["most"]


MOST_UNSEEN = 5 * polls.BLOCK
"""A block, and as much of the few other loops and helpers that may stand beside it in a turn."""


SMALL_HELPER = [
    "def helper_0():\n    for i in range(500):\n        turn()",
    "def function():\n    for j in range(900):\n        turn()\n        helper_0()",
]
"""A helper without a look, called many times."""


def check(count):
    for seed, texts in enumerate([SMALL_HELPER, *map(nest, range(count))]):
        told, _ = ran(texts, seed)
        told_too, most = ran(with_polls(texts), seed)
        assert told_too == told, "\n".join(texts)
        assert most <= MOST_UNSEEN, f"{most} turns between two looks:\n" + "\n".join(with_polls(texts))


@pytest.mark.parametrize("count", [60, *rarely(150)])
def test_agree_random_nests_look_in_time_and_do_the_same(count):
    check(count)


@pytest.mark.parametrize(
    ("right", "wrong", "why"),
    [
        ("count * one_turn <= BLOCK", "count <= BLOCK", "turns between two looks"),
        ("self.helpers.get(node.func.id, 0)", "0", "turns between two looks"),
        ("one_turn = 1 + sum(", "one_turn = 1 + 0 * sum(", "turns between two looks"),
        ("loop.body[:0] = statements(self.look, loop)", "loop.body += statements(self.look, loop)", "turns between two looks"),
    ],
    ids=["product of constants", "helpers", "inner turns", "continue passes by"],
)
def test_planted_mistake_is_found(right, wrong, why):
    with planted(polls, right, wrong), pytest.raises(AssertionError, match=why):
        check(150)


def test_example_a_short_function_is_left_as_it_is():
    text = "def function():\n    for i in range(30):\n        for j in (1, 2):\n            x += j\n"
    assert with_polls([text]) == [text.rstrip()]


def test_example_without_a_condition_nothing_is_put_in():
    body = ast.parse("while True:\n    x += 1").body
    assert polls.add_polls(body, None, "return", {}) == 0
    assert ast.unparse(body) == "while True:\n    x += 1"
