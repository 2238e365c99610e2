"""Plans as JSON, to be stored or written by hand.

A plan is an object with its roots; a node has tags, and no children or two. Tags are written in ranges, which stand for all
pairs of their parts and streams; either is a number or a text of numbers and ranges, and 0 where it is left out. A node
may name the type of its state, ``"state": "part"``, where a program has several::

    {"roots": [
        {"tags": [{"tag": "barrier"}],
         "children": [
            {"tags": [{"tag": "value", "streams": 0}]},
            {"tags": [{"tag": "value", "streams": "1-3, 7"}, {"tag": "inc", "parts": "0-31", "streams": "0-1"}]}
         ]}
    ]}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.errors import ParameterError
from headrace.names import instead
from headrace.synchronization.plan_nodes import PlanNode
from headrace.synchronization.tag_ranges import in_ranges, numbers_text
from headrace.synchronization.tags import MOST_PARTS, ImplementationTag

MOST_LEAVES = 64
MOST_STREAMS = 4096
_RANGE = re.compile(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?")


def to_json(roots: Sequence[PlanNode]) -> str:
    """Write a plan, one line a node's tags."""
    lines = [",\n".join(_node_text(root, "    ") for root in roots)]
    return "\n".join(['{"roots": [', *lines, "]}"]) + "\n"


def _node_text(node: PlanNode, indent: str) -> str:
    tags = []
    for one in in_ranges(node.tags):
        entry: dict[str, Any] = {"tag": one.tag}
        for label, numbers in (("parts", one.parts), ("streams", one.streams)):
            if numbers != (0,):
                entry[label] = numbers[0] if len(numbers) == 1 else numbers_text(numbers)
        tags.append(json.dumps(entry))
    text = f'{indent}{{"tags": [{", ".join(tags)}]'
    if node.state is not None:
        text += f', "state": {json.dumps(node.state)}'
    if node.children:
        children = ",\n".join(_node_text(child, indent + "    ") for child in node.children)
        text += f', "children": [\n{children}\n{indent}]'
    return text + "}"


def from_json(given: str | Mapping[str, Any]) -> tuple[PlanNode, ...]:
    """Read the roots of a plan.

    Parameters
    ----------
    given : str or mapping
        JSON, or what it is once read.

    Raises
    ------
    ParameterError
        Naming the place and what should be there.
    """
    if isinstance(given, str | bytes):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError) as error:
            said = f"{error}" if isinstance(error, ValueError) else "it is nested too deeply"
            raise ParameterError(f"plan: this is not JSON: {said}; plan.to_json() writes what can be read") from None
    return tuple(_roots(given))


def _roots(given: Any) -> Iterator[PlanNode]:
    for at, root in _listed(_members("plan", given, {"roots"}), "plan", "roots", least=1):
        yield _node(at, root, 0)


def _node(where: str, given: Any, depth: int) -> PlanNode:
    if depth >= MOST_LEAVES:
        raise ParameterError(f"{where}: deeper than {MOST_LEAVES - 1}, which no plan of {MOST_LEAVES} leaves is; leave nodes out")
    members = _members(where, given, {"tags", "children", "state"})
    tags = [tag for at, entry in _listed(members, where, "tags") for tag in _tags(at, entry)]
    children = [_node(at, child, depth + 1) for at, child in _listed(members, where, "children")]
    if len(children) not in (0, 2):
        raise ParameterError(f"{where}: {len(children)} in children: a leaf has none, and a node that forks has two")
    return PlanNode(tags, children, members.get("state"))


def _tags(where: str, given: Any) -> Iterator[ImplementationTag]:
    members = _members(where, given, {"tag", "parts", "streams"})
    name = members.get("tag")
    if not isinstance(name, str):
        raise ParameterError(f'{where}: tag={name!r}: give the name of a tag, as in {{"tag": "barrier"}}')
    streams = _numbers(where, "streams", members.get("streams", 0), MOST_STREAMS)
    for part in _numbers(where, "parts", members.get("parts", 0), MOST_PARTS):
        for stream in streams:
            yield ImplementationTag(name, part, stream)


def _numbers(where: str, label: str, given: Any, most: int) -> list[int]:
    """Read a number, or ranges of them."""
    if isinstance(given, int) and not isinstance(given, bool):
        given = str(given)
    numbers: list[int] = []
    for one in given.split(",") if isinstance(given, str) else [""]:
        found = _RANGE.fullmatch(one)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not first <= last < most:
            raise ParameterError(
                f'{where}: {label}={given!r}: give a number or ranges of them, as in "0-31, 40", each from 0 to {most - 1:,}'
            )
        numbers.extend(range(first, last + 1))
    return numbers


def _members(where: str, given: Any, known: set[str]) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise ParameterError(f"{where}: {given!r:.60}: give an object with {', '.join(sorted(known))}")
    for name in given:
        if name not in known:
            raise ParameterError(f"{where}: there is no {name!r:.60}; {instead(name, sorted(known), 'its members')}")
    return given


def _listed(members: Mapping[str, Any], where: str, name: str, least: int = 0) -> list[tuple[str, Any]]:
    """Return place and value of each in a list."""
    given = members.get(name, [])
    if not isinstance(given, list | tuple) or len(given) < least:
        wanted = "a list of nodes" if name != "tags" else "a list of tags"
        raise ParameterError(f"{where}: {name}={given!r:.60}: give {wanted}")
    return [(f"{where}.{name}[{i}]", one) for i, one in enumerate(given)]
