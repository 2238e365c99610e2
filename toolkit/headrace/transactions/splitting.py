"""Splits a transaction into operations on single rows, where none depends on what another one reads.

Such operations are run in chains: those of one row in the order of events, different rows concurrently (TStream, section
IV-C). A lowered function becomes

    name     says which operations an event has: as `determined`, with a number for each place that finds a row
    unit     what one operation does: statements that write the row, from the event and from the row itself; and it saves
             values of the row that are read elsewhere, as they are at that moment
    post     the rest, after all operations: reads are of the saved values, writes are left out

A statement belongs to a unit if it writes rows and to `post` if it reads them. What cannot be split in this way, but is
the only operation of its event, is run whole, in the chain of its row. Anything else cannot use chains of
operations: transactions then run whole, by their dependencies, and `Split.reason` says why.

Source      TStream, sections IV-B (the EventBlotter) and IV-C (operations of a transaction, and which are independent).
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from headrace.codegen.assigned import stored_inside
from headrace.codegen.capture import CapturedFunction
from headrace.errors import FunctionError
from headrace.transactions.branches import OTHER
from headrace.transactions.determined import Reads, name_keys
from headrace.transactions.lowering.lowered import DONE, EMITTED, REJECTED, Lowered, Row
from headrace.transactions.lowering.trees import loaded, returning, written_place
from headrace.transactions.nulls import guarded_loop
from headrace.transactions.turns import used_in_turns

KEPT = "<kept>"
"""The name that stands for what an operation saves of its row."""
TURN = "<turn>"
"""The number of the loop's turn that an operation belongs to."""
SAME = "\u200b"
"""Added to a name, makes another one that looks the same."""
_MOST_PATHS = 64


def shown(text: str) -> str:
    """A text about rows as the user would write it: without the suffixes in the names of sites and saved columns."""
    return _SAVED.sub("", text).replace(SAME, "").replace(OTHER, "")


_SAVED = re.compile(r"(?<=\w)@\d+")
"""The number of a saved column, behind its name."""


@dataclass
class Site:
    """A place that finds a row.

    Attributes
    ----------
    row : Row
        Under a name of its own: no two sites share one.
    loops : list of ast.For
        The loops around it.
    is_unit : bool
        Its statements make a unit; otherwise it is run whole, if it is alone.
    why : str
        Why it makes no unit.
    body : list of ast.stmt
        Of the unit.
    saved : list of (column, number)
        What it saves, and under which number.
    """

    row: Row
    loops: list[ast.For]
    is_unit: bool = True
    why: str = ""
    body: list[ast.stmt] = field(default_factory=list)
    saved: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class Split:
    """A function split into operations; or `reason`, why it is not, and nothing else."""

    reason: str = ""
    sites: list[Site] = field(default_factory=list)
    name: CapturedFunction | None = None
    post: CapturedFunction | None = None
    lowered: Lowered | None = None


class _CannotSplit(Exception):
    pass


def split(lowered: Lowered) -> Split:
    """Split a function."""
    try:
        return _Splitting(lowered).split()
    except _CannotSplit as why:
        return Split(str(why))
    except FunctionError as error:
        return Split(error.args[0])


def _line(node: ast.AST) -> str:
    return f"line {getattr(node, 'lineno', 0)}"


class _Splitting:
    """Splits one function."""

    def __init__(self, lowered: Lowered):
        self._captured = lowered.captured
        self._rows = lowered.rows
        self._sites: dict[str, Site] = {}
        """By the name of their row."""
        self._body = self._renamed(copy.deepcopy(lowered.captured.node.body), {}, [], True)
        rows = {name: site.row for name, site in self._sites.items()}
        self._lowered = replace(lowered, captured=self._with(self._body), rows=rows)
        self._reads = Reads(self._lowered)

    def _with(self, body: list[ast.stmt]) -> CapturedFunction:
        node = copy.copy(self._captured.node)
        node.body = body or [ast.copy_location(ast.Pass(), node)]
        return replace(self._captured, node=ast.fix_missing_locations(node))

    def split(self) -> Split:
        self._check_control(self._body, None)
        self._check_turns()
        for name, site in self._sites.items():
            try:
                site.body = self._unit(name, site)
            except _CannotSplit as why:
                site.is_unit, site.why, site.saved = False, str(why), []
        self._check_paths()
        post = self._with(self._post(copy.deepcopy(self._body)))
        return Split("", list(self._sites.values()), name_keys(self._lowered, with_status=True), post, self._lowered)

    # -- sites

    def _renamed(
        self, statements: list[ast.stmt], known: dict[str, str], loops: list[ast.For], is_plain: bool
    ) -> list[ast.stmt]:
        """Give each place that finds a row a name of its own; `is_plain`: it is inside nothing but loops over the event."""
        for node in statements:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in self._rows:
                name = node.targets[0].id
                row = self._rows[name]
                own = name + SAME * len(self._sites)
                # `Row.number` names variables of the generated text: one for each site.
                self._sites[own] = Site(Row(own, row.table, 1000 + len(self._sites), row.is_written), list(loops))
                known[name] = own
                node.targets[0].id = own
                self._rename(node.value, known)
            elif isinstance(node, ast.If):
                self._rename(node.test, known)
                before = dict(known)
                inner = [dict(known), dict(known)]
                node.body = self._renamed(node.body, inner[0], loops, False)
                node.orelse = self._renamed(node.orelse, inner[1], loops, False)
                for name in {*inner[0], *inner[1]}:
                    ways = zip(inner, (node.body, node.orelse), strict=True)
                    found = {each.get(name) for each, block in ways if not _leaves(block)}
                    if len(found) == 1 and None not in found:
                        known[name] = str(found.pop())
                    elif found and found != {before.get(name)}:
                        known[name] = ""
            elif isinstance(node, ast.For | ast.While):
                self._rename(node.iter if isinstance(node, ast.For) else node.test, known)
                inside = [*loops, node] if isinstance(node, ast.For) else loops
                own = dict(known)
                node.body = self._renamed(node.body, own, inside, is_plain)
                node.orelse = self._renamed(node.orelse, known, loops, False)
                for name in own:
                    if own[name] != known.get(name):
                        known[name] = ""
            else:
                self._rename(node, known)
        return statements

    def _rename(self, node: ast.AST, known: dict[str, str]) -> None:
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and each.id in self._rows:
                own = known.get(each.id, "")
                if not own:
                    raise _CannotSplit(f"{each.id} may be one of several rows ({_line(each)})")
                each.id = own

    def _mentioned(self, node: ast.AST) -> set[str]:
        return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in self._sites}

    # -- control

    def _check_control(self, statements: list[ast.stmt], around: ast.For | None) -> None:
        """Check that the event alone decides which rows are found, and whether it is rejected."""
        for node in statements:
            if isinstance(node, ast.If):
                read = self._reads.of(node.test)
                if read is None:
                    self._check_control(node.body, around)
                    self._check_control(node.orelse, around)
                elif any(self._opens(each) for each in ast.walk(node)):
                    raise _CannotSplit(f"whether a row is touched depends on {ast.unparse(read)} ({_line(node)})")
            elif isinstance(node, ast.While):
                if any(self._opens(each) for each in ast.walk(node)):
                    raise _CannotSplit(f"a while loop finds rows ({_line(node)})")
            elif isinstance(node, ast.For):
                if not any(self._opens(each) for each in ast.walk(node)):
                    continue
                if around is not None:
                    raise _CannotSplit(f"a loop in a loop finds rows ({_line(node)})")
                if any(isinstance(each, ast.Break | ast.Continue) for each in ast.walk(node)) or node.orelse:
                    raise _CannotSplit(f"the loop that finds rows may be left early ({_line(node)})")
                for each in node.body:
                    is_plain = self._opens(each) or (isinstance(each, ast.If) and self._guards(each))
                    if not is_plain and any(map(self._opens, ast.walk(each))):
                        raise _CannotSplit(f"not every iteration of the loop finds the row ({_line(each)})")
                self._check_control(node.body, node)

    def _opens(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in self._sites

    def _guards(self, node: ast.If) -> bool:
        """``if e.key is not None: find it; else: return 1``."""
        finds = len(node.body) == 1 and self._opens(node.body[0])
        return finds and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.Return)

    def _check_turns(self) -> None:
        """Check that of two rows that may be the same, the first is not used any more once the second is."""
        found = used_in_turns(self._body, {name: site.row for name, site in self._sites.items()})
        if found is not None:
            first, second, node = found
            raise _CannotSplit(f"{first} and {second} may be one row, and {first} is used again after it ({_line(node)})")

    # -- units

    def _unit(self, name: str, site: Site) -> list[ast.stmt]:
        """Find the statements of the operation."""
        if (node := self._rejects_by_reading(name)) is not None:
            raise _CannotSplit(f"it may be rejected by what it reads ({_line(node)})")
        begin = self._path_to(self._body, name)
        body: list[ast.stmt] = []
        for block, at in begin:
            body += [copy.deepcopy(each) for each in block[:at]]
            node = block[at]
            if isinstance(node, ast.For):
                body += _bind(node)
        open_at = begin[-1]
        opening = ast.Assign([ast.Name(name, ast.Store())], ast.Constant("" if site.row.table.is_text else 0))
        self._skipped: list[ast.stmt] = []
        rest = open_at[0][open_at[1] + 1 :]
        if self._uses(self._body, name) != self._uses(rest, name):
            raise _CannotSplit(f"{name} is used outside of the block in which it is found")
        work = self._work(rest, name, site, is_looped=False)
        wanted = {each for node in work for each in _loaded(node)}
        for node in self._skipped:
            if stored_inside(node) & wanted:
                raise _CannotSplit(f"what is written to {name} is computed after the row was found ({_line(node)})")
        prelude = self._prelude(body, [opening, *work], name)
        return [*prelude, ast.copy_location(opening, open_at[0][open_at[1]]), *work]

    def _uses(self, statements: list[ast.stmt], name: str) -> int:
        """How often a row is used."""
        return sum(
            isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load)
            for statement in statements
            for each in ast.walk(statement)
        )

    def _path_to(self, statements: list[ast.stmt], name: str) -> list[tuple[list[ast.stmt], int]]:
        """The blocks around where a row is found, outermost first, each with the place in it; none if it is not found here."""
        for at, node in enumerate(statements):
            if self._opens(node) and name in self._mentioned(node.targets[0]):  # type: ignore[attr-defined]
                return [(statements, at)]
            if isinstance(node, ast.If) and self._guards(node) and name in self._mentioned(node.body[0]):
                return [(statements, at)]
            for block in (getattr(node, "body", []), getattr(node, "orelse", [])):
                if path := self._path_to(block, name):
                    return [(statements, at), *path]
        return []

    def _rejects_by_reading(self, name: str) -> ast.If | None:
        """The condition on what was read that decides, on some path through this site, whether the function goes on."""
        ways = [{each for each, _ in path} for path in self._paths(self._body)]
        for node in [each for statement in self._body for each in ast.walk(statement)]:
            is_check = isinstance(node, ast.If) and ast.unparse(node.test).startswith(EMITTED)
            if not isinstance(node, ast.If) or is_check or self._reads.of(node.test) is None:
                continue
            if any(isinstance(each, ast.Return) for each in ast.walk(node)):
                asked = self._mentioned(node.test)
                if any(name in way and (not asked or way & asked) for way in ways):
                    return node
        return None

    def _work(self, statements: list[ast.stmt], name: str, site: Site, is_looped: bool) -> list[ast.stmt]:
        """Of the statements after the one that finds a row, those that write it, and those that save values read elsewhere."""
        result: list[ast.stmt] = []
        for node in statements:
            if isinstance(node, ast.Return):
                return [*result, *self._ends(node)]
            if name not in self._mentioned(node):
                self._skipped.append(node)
                result += self._ends(node)
                continue
            if isinstance(node, ast.If) and self._reads.of(node.test) is None:
                body = self._work(node.body, name, site, is_looped)
                orelse = self._work(node.orelse, name, site, is_looped)
                if body or orelse:
                    result.append(ast.copy_location(ast.If(node.test, body or [ast.Pass()], orelse), node))
                continue
            if self._writes(node):
                others = self._mentioned(node) - {name}
                if others:
                    raise _CannotSplit(f"what is written to one row depends on another one ({_line(node)})")
                foreign = _loaded(node) & self._reads.names - stored_inside(node)
                if foreign:
                    first = sorted(foreign)[0]
                    raise _CannotSplit(f"what is written depends on {first!r}, which was read before ({_line(node)})")
                if stored_inside(node) & self._names_elsewhere(node):
                    raise _CannotSplit(f"a statement writes a row and keeps what it read ({_line(node)})")
                result.append(copy.deepcopy(node))
            else:
                if is_looped or isinstance(node, ast.For | ast.While):
                    raise _CannotSplit(f"a row is read in a loop in which it was not found ({_line(node)})")
                result += self._save(node, name, site)
        return result

    def _ends(self, node: ast.stmt) -> list[ast.stmt]:
        """The statements that end the function, without rejecting, where a given one does: what follows is not executed."""
        if isinstance(node, ast.Return):
            is_rejected = isinstance(node.value, ast.Constant) and node.value.value == REJECTED
            return [] if is_rejected else [ast.copy_location(ast.Return(None), node)]
        if isinstance(node, ast.If):
            body, orelse = ([end for each in block for end in self._ends(each)] for block in (node.body, node.orelse))
            if not body and not orelse:
                return []
            test = copy.deepcopy(node.test)
            return [ast.copy_location(ast.If(test, body or [ast.copy_location(ast.Pass(), node)], orelse), node)]
        if any(self._ends(each) for each in ast.walk(node) if isinstance(each, ast.Return)):
            raise _CannotSplit(f"a loop may end the function ({_line(node)})")
        return []

    def _writes(self, node: ast.stmt) -> bool:
        """Whether a statement writes rows; one that also emits cannot be split."""
        writes = emits = False
        for each in ast.walk(node):
            place = written_place(each)
            if isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name):
                writes |= place.value.id in self._sites
                emits |= place.value.id == EMITTED
        if writes and emits:
            raise _CannotSplit(f"a condition on what was read decides what is written and what is emitted ({_line(node)})")
        return writes

    def _names_elsewhere(self, node: ast.stmt) -> set[str]:
        inside = {id(each) for each in ast.walk(node)}
        return {
            each.id
            for statement in self._body
            for each in ast.walk(statement)
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load) and id(each) not in inside
        }

    def _save(self, node: ast.stmt, name: str, site: Site) -> list[ast.stmt]:
        """Save the columns that a statement reads; in `post` it finds them under their numbers."""
        saved: list[ast.stmt] = []
        for each in [n for n in ast.walk(node) if isinstance(n, ast.Attribute)]:
            if isinstance(each.value, ast.Name) and each.value.id == name:
                kind = site.row.table.columns[each.attr.partition("@")[0]]
                if not isinstance(kind, str):
                    raise _CannotSplit(f"{ast.unparse(each)} is {kind!r}, of which no copy is kept ({_line(each)})")
                number = len(site.saved)
                site.saved.append((each.attr, number))
                target = ast.Attribute(ast.Name(KEPT, ast.Load()), f"{each.attr}@{number}", ast.Store())
                value = ast.Attribute(ast.Name(name, ast.Load()), each.attr, ast.Load())
                saved.append(ast.copy_location(ast.Assign([target], value), node))
                each.attr = f"{each.attr}@{number}"
        for each in saved:
            ast.fix_missing_locations(each)
        return saved

    def _prelude(self, before: list[ast.stmt], work: list[ast.stmt], name: str) -> list[ast.stmt]:
        """The assignments before the row is found whose values the work needs."""
        wanted = {each for node in work for each in _loaded(node)}
        result: list[ast.stmt] = []
        for node in reversed(before):
            if not stored_inside(node) & wanted:
                continue
            # When an operation runs, no list of its event has caused a rejection: the guards are not needed.
            node = guarded_loop(node) or node
            if isinstance(node, ast.If | ast.While) or self._mentioned(node) or self._reads.of(node) is not None:
                raise _CannotSplit(f"what is written to {name} is computed under conditions ({_line(node)})")
            if any(isinstance(each, ast.Return) for each in ast.walk(node)):
                raise _CannotSplit(f"what is written to {name} is computed in a loop that may reject ({_line(node)})")
            if isinstance(node, ast.Assign):
                wanted -= stored_inside(node)  # earlier assignments to them are not needed
            wanted |= _loaded(node)
            result.insert(0, node)
        return result

    # -- paths

    def _check_paths(self) -> None:
        """Check that an operation that is run whole is the only one."""
        for path in self._paths(self._body):
            whole = [site for name, _ in path if not (site := self._sites[name]).is_unit]
            if whole and (len(path) > 1 or any(is_many for _, is_many in path)):
                raise _CannotSplit(whole[0].why)

    def _paths(self, statements: list[ast.stmt]) -> list[frozenset[tuple[str, bool]]]:
        """The sets of sites that one event may pass, each with whether it is in a loop."""
        done, open_ = self._ways(statements)
        return [*done, *open_]

    def _ways(self, statements: list[ast.stmt]) -> tuple[set[frozenset], set[frozenset]]:
        """Ways that leave the function, and ways that reach the end of the block."""
        done: set[frozenset] = set()
        ways: set[frozenset] = {frozenset()}
        for node in statements:
            if isinstance(node, ast.Return):
                return done | ways, set()
            if self._opens(node):
                (name,) = self._mentioned(node.targets[0])  # type: ignore[attr-defined]
                inner: list[tuple[set, set]] = [(set(), {frozenset({(name, bool(self._sites[name].loops))})})]
            elif isinstance(node, ast.If):
                inner = [self._ways(node.body), self._ways(node.orelse)]
            elif isinstance(node, ast.For | ast.While):
                left, through = self._ways(node.body)
                inner = [(left, through | {frozenset()})]
            else:
                continue
            done |= {way | more for way in ways for left, _ in inner for more in left}
            ways = {way | more for way in ways for _, through in inner for more in through}
            if len(done) + len(ways) > _MOST_PATHS:
                raise _CannotSplit("there are too many ways through the function")
        return done, ways

    # -- post

    def _post(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The function without what operations do; it ends where an operation is run whole, which does the rest itself."""
        result: list[ast.stmt] = []
        for node in statements:
            if isinstance(node, ast.If) and self._reads.of(node.test) is None and not self._guards(node):
                node.body, node.orelse = self._post(node.body) or [ast.copy_location(ast.Pass(), node)], self._post(node.orelse)
            elif isinstance(node, ast.For | ast.While) and (self._reads.of(getattr(node, "iter", None)) is None):
                if isinstance(node, ast.While) and self._writes(node):
                    continue
                node.body = self._post(node.body) or [ast.copy_location(ast.Pass(), node)]
                node.orelse = self._post(node.orelse)
            elif self._writes(node):
                continue  # it was done in the chain
            result.append(node)
            opens = self._opens(node) or (isinstance(node, ast.If) and self._guards(node))
            if opens and any(not self._sites[name].is_unit for name in self._mentioned(node)):
                result.append(returning(DONE, node))
            if _leaves(result):
                break
        return result


def _bind(node: ast.For) -> list[ast.stmt]:
    """Give a loop's variables the values of one turn."""
    result: list[ast.stmt] = []

    def give(target: ast.expr, source: ast.expr) -> None:
        turn = ast.Name(TURN, ast.Load())
        called = source.func.id if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) else ""
        if called == "zip" and isinstance(target, ast.Tuple | ast.List):
            assert isinstance(source, ast.Call)
            for part, one in zip(target.elts, source.args, strict=False):
                give(part, one)
        elif called == "enumerate" and isinstance(target, ast.Tuple | ast.List) and len(source.args) == 1:  # type: ignore[attr-defined]
            result.append(_assign(target.elts[0], turn, node))
            give(target.elts[1], source.args[0])  # type: ignore[attr-defined]
        elif called == "range" and len(source.args) <= 2:  # type: ignore[attr-defined]
            first = source.args[0] if len(source.args) == 2 else None  # type: ignore[attr-defined]
            result.append(_assign(target, turn if first is None else ast.BinOp(first, ast.Add(), turn), node))
        elif isinstance(source, ast.Attribute):
            result.append(_assign(target, ast.Subscript(source, turn, ast.Load()), node))
        else:
            raise _CannotSplit(f"a loop over {ast.unparse(source)} finds rows ({_line(node)})")

    give(node.target, node.iter)
    return result


def _assign(target: ast.expr, value: ast.expr, node: ast.AST) -> ast.stmt:
    made = ast.Assign([copy.deepcopy(target)], copy.deepcopy(value))
    for each in ast.walk(made):
        if "lineno" in each._attributes and not hasattr(each, "lineno"):
            ast.copy_location(each, node)
    return made


def _leaves(statements: list[ast.stmt]) -> bool:
    """Whether a block always leaves the function at its end."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        return _leaves(last.body) and _leaves(last.orelse)
    return isinstance(last, ast.Return | ast.Raise)


def _loaded(node: ast.AST) -> set[str]:
    """Names whose values a statement uses: those it reads, and those it changes."""
    changed = {n.target.id for n in ast.walk(node) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    return loaded(node) | changed


def sites_of(splits: list[Split]) -> Iterator[tuple[int, Site]]:
    """All sites, with the number of their function."""
    for number, each in enumerate(splits):
        for site in each.sites:
            yield number, site
