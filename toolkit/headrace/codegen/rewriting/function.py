"""Rewriting a captured user function so that it works on plain arrays.

``state.chars`` becomes ``s_chars[slot]``, ``emit(chars=x)`` becomes the statement that
the kernel's template has for it, and a helper is rewritten likewise and copied in.
The result is text: functions of arrays and integers, each line marked with the
line of the user's function that it comes from, as in ``# user_update:3``. Lines
are counted from the ``def``, so moving a function in its file changes neither
the text nor its hash, and nothing is compiled again.
"""

from __future__ import annotations

import ast
import re
from collections import Counter

from headrace.codegen.assigned import check_assigned, stored_inside
from headrace.codegen.bindings import ContainerBinding, HostKernel, Written
from headrace.codegen.capture import CapturedFunction, write_texts
from headrace.codegen.containers.places import Place
from headrace.codegen.held import Key, check_held
from headrace.codegen.inference import Inference, is_container
from headrace.codegen.rewriting.lines import always_returns, statements_of
from headrace.codegen.rewriting.polls import add_polls
from headrace.codegen.rewriting.statements import Statements
from headrace.codegen.trees import expression
from headrace.codegen.uses import given_away

_OURS = re.compile(r"(checked|kept)_|(emit|store|node|at|turn|begin|begun|handed|entry|place|value|key)_\d+$")
"""Names that a local must not have."""


def rewrite(captured: CapturedFunction, roles: tuple[str, ...], host: HostKernel) -> Written:
    """Rewrite a function and its helpers.

    Parameters
    ----------
    captured : CapturedFunction
    roles : tuple of str
        Roles of its parameters, by position: keys of the host's objects and
        values, or "emit".
    host : HostKernel

    Raises
    ------
    FunctionError
        Names the line that cannot be compiled.
    """
    written = Written(host)
    # A parameter with a default is a constant; emit may be left out by a function that does not emit.
    given = [name for name in captured.parameters if name not in captured.defaults]
    needed = len(roles) - (roles[-1:] == ("emit",))
    if not needed <= len(given) <= len(roles):
        raise captured.error(f"takes {len(given)} parameters: it is called with ({', '.join(roles)})")
    if any(name == "emit" != role for name, role in zip(given, roles, strict=False)):
        raise captured.error(f"takes ({', '.join(given)}): it is called with ({', '.join(roles)})")
    check_assigned(captured)
    bound = dict(zip(given, roles, strict=False))
    bound |= {name: row.role for name, row in host.rows.items()} | dict(host.named)
    function = _Function(captured, bound, (), host.name, host.returns, written, {}, {})
    function.asked = roles
    function.write()
    written.parameters = function.passes
    return written


class _Function(Statements):
    """One function being rewritten: the user's, or a helper as called in one way."""

    def __init__(self, captured, roles, own, name, returns, written, given, places):
        self.captured: CapturedFunction = captured
        self.roles: dict[str, str] = roles
        self.own: tuple[str, ...] = own  # parameters that stay parameters
        self.name: str = name
        self.returns = returns
        self.written: Written = written
        self.host: HostKernel = written.host
        self.objects = dict(written.host.objects)
        self.temporaries = Counter()
        self.walks = 0
        self.places: dict[str, Place] = dict(places)
        self.given_places = frozenset(places)
        has_value = {*own, *roles, *places, *stored_inside(captured.node)}
        write_texts(captured.node, {name: value for name, value in captured.defaults.items() if name not in has_value})
        self.inference = Inference(captured, roles, self.host, given, written.returned)
        # A helper does not see what its caller does with a state afterwards.
        is_helper = self.name != self.host.name
        self.given_away = {} if is_helper else given_away(captured.node.body, roles, self.host.ends)
        nodes = list(ast.walk(captured.node))
        loops = [node for node in nodes if isinstance(node, ast.For | ast.comprehension)]
        self.loop_variables = {
            node.target.id
            for node in loops
            if isinstance(node.target, ast.Name) and self._list_of(node.iter) is not None
        }
        # Looked for before templates insert indices of their own, which are within bounds.
        self.has_indices = any(isinstance(node, ast.Subscript) for node in nodes)
        names = [node for node in nodes if isinstance(node, ast.Name)]
        stored = {name.id for name in names if isinstance(name.ctx, ast.Store)} - set(self.host.rows)
        taken = self.host.taken_names() | set(captured.constants)
        self.taken = taken | {*roles, *self.host.rows, *self.host.named}
        self.names: dict[str, str] = {}
        for local in sorted(stored | set(own)):
            free = local
            while free in taken or _OURS.match(free):
                free += "_"
            taken.add(free)
            self.names[local] = free
        self.passes = self.host.parameters if self._needs_arrays(nodes) else ()

    def _needs_arrays(self, nodes: list[ast.AST]) -> bool:
        """Whether this function uses more than its own parameters."""
        if self.name == self.host.name or self.roles or self.captured.helpers or self.places:
            return True
        if any(kind != "number" for kind in self.inference.names.values()) or any(
            isinstance(node, ast.Constant) and isinstance(node.value, str) for node in nodes
        ):
            return self.host.texts is not None
        loops = any(isinstance(node, ast.While | ast.For) for node in nodes)
        return loops and self.host.poll is not None

    # -- writing

    def _field_of(self, node: ast.AST) -> Key | None:
        """Return the place of a field that holds a container."""
        role = self._object_of(node)
        if role is None or not isinstance(node, ast.Attribute):
            return None
        return (role, node.attr) if isinstance(self.objects[role].get(node.attr), ContainerBinding) else None

    def _check_held(self) -> None:
        given = {
            name: (place.role, place.field) if place.role is not None and place.field is not None else ("", name)
            for name, place in self.places.items()
        }
        lists = [name for name, kind in self.inference.names.items() if is_container(kind)]
        check_held(self.captured, self._field_of, given, lists, self.roles)

    def write(self) -> None:
        if self.host.memory is not None:
            self._check_held()
        body = self._block(self.captured.node.body)
        if self.returns not in (None, "helper") and not always_returns(body):
            raise self.captured.error("must return a value on every path")
        # A stopped function that owes a value has none to return, so it raises.
        valued = any(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(self.captured.node))
        leave = "raise RuntimeError('stopped')" if valued and self.returns is not None else "return"
        self.written.turns[self.name] = add_polls(body, self.host.poll, leave, self.written.turns)
        if self.name != self.host.name or self.host.only_used:
            # Only what is used is passed: Numba takes at most 30 arguments in a call, and each takes time to compile.
            used = {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}
            self.passes = tuple(name for name in self.passes if name in used)
        parameters = [*self.passes, *self.handed, *(self.names[p] for p in self.own)]
        definition = ast.parse(f"def {self.name}({', '.join(parameters)}): pass").body[0]
        assert isinstance(definition, ast.FunctionDef)
        for parameter, default in self.captured.defaults.items():
            if parameter in self.names and parameter not in self.own:
                # The function assigns to it: a local that starts with its default.
                value = self.visit(self._text(ast.unparse(default), self.captured.node))
                body.insert(0, ast.Assign([ast.Name(self.names[parameter], ast.Store())], value))
        definition.body = body or [ast.Pass()]
        first = definition.body[0]
        if self.name == self.host.name and isinstance(first, ast.Return) and first.value is not None:
            self.written.expression = ast.unparse(first.value)
        self._append(definition)

    def _append(self, definition: ast.FunctionDef) -> None:
        text = ast.unparse(ast.fix_missing_locations(definition))
        # The text parses to the same statements, so walking both in step maps new lines to old ones.
        again = ast.parse(text).body
        origin: dict[int, int] = {}
        for new, old in zip(statements_of(again), statements_of([definition]), strict=True):
            origin[new.lineno] = old.lineno
        written = self.written
        decorator = self.host.decorator
        if decorator.startswith("compiled_user") and self.has_indices:
            decorator = "compiled_user_bounded"
        elif decorator == "compiled_user_within" and self.name != self.host.name:
            decorator = "compiled_user"  # a helper may have several callers
        lines = [f"@{decorator}"] if decorator else []
        written.lines += [None] * len(lines)
        for number, line in enumerate(text.split("\n"), start=1):
            line_of_user = max(origin.get(number, 0), self.captured.line)
            lines.append(f"{line}  # {self.name}:{line_of_user - self.captured.line + 1}")
            written.lines.append((self.captured, line_of_user))
        written.lines += [None, None]
        written.chunks.append("\n".join(lines))
        written.markers[self.name] = self.captured

    def _error(self, text: str, node: ast.AST):
        return self.captured.error(text, node)

    def _temporary(self, prefix: str) -> str:
        while True:
            self.temporaries[prefix] += 1
            name = f"{prefix}_{self.temporaries[prefix]}"
            if name not in self.taken:  # as ``at_1`` is, the place of a transaction's row, or the user's name of a row
                return name

    def _text(self, text: str, node: ast.AST) -> ast.expr:
        return expression(text, node)
