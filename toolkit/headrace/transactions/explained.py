"""What becomes of the functions of a transactional operator, in words: rows, operations, dependencies, execution."""

from __future__ import annotations

import ast

from headrace.transactions import layout
from headrace.transactions.binding import Bound
from headrace.transactions.fitting import objection
from headrace.transactions.lowering.lowered import Lowered
from headrace.transactions.splitting import Site, Split, shown


def explain(bound: Bound) -> str:
    """Say how functions are run, one line for each thing to know.

    Parameters
    ----------
    bound : Bound
    """
    lines: list[str] = []
    taken = bound.operations
    pairs = [] if taken is None else zip(taken.sites, taken.overwriting, strict=True)
    overwriting = [site for (_, site), nullable in pairs if nullable is not None]
    adding = [] if taken is None else [taken.sites[number][1] for number in taken.adding]
    for lowered, split in zip(bound.lowered, bound.splits, strict=True):
        lines.append(f"{lowered.captured.name}")
        read = _read(lowered)
        for name, row in lowered.rows.items():
            done = ["read"] * (name in read or not row.is_written) + ["written"] * row.is_written
            lines.append(f"  row {row.name} of {row.table.name}: {' and '.join(done)}")
        if not lowered.rows:
            lines.append("  no row")
        lines.append(f"  rejected: {'what it wrote before is put back' if lowered.must_undo else 'nothing is written before'}")
        lines += [f"  {line}" for line in _operations(split, overwriting, adding)]
    if bound.undetermined is None:
        lines.append("keys: known from the event alone")
        lines += [_execution(bound), _versions(bound)]
    else:
        error = bound.undetermined
        lines += ["keys: some depend on what is read", f"  line {error.line} of {error.function}: {error.args[0]}"]
    against = objection(bound, "speculative")
    said = "on versions of rows, before what it reads is known to be final; again where it was not"
    lines.append(f'scheme="speculative": {said}' if against is None else str(against))
    return shown("\n".join(lines))


def _read(lowered: Lowered) -> set[str]:
    """Names of the rows of which something is read."""
    read = set()
    for node in ast.walk(lowered.captured.node):
        place = node.target if isinstance(node, ast.AugAssign) else node
        is_read = isinstance(node, ast.AugAssign) or isinstance(getattr(node, "ctx", None), ast.Load)
        if is_read and isinstance(place, ast.Attribute) and isinstance(place.value, ast.Name):
            read.add(place.value.id)
    return read


def _operations(split: Split, overwriting: list[Site], adding: list[Site]) -> list[str]:
    if split.reason:
        return [f"operations: it runs whole, since {split.reason}"]
    lines = []
    for site in split.sites:
        often = " in each iteration of its loop" if site.loops else ""
        if site.is_unit:
            saved = ", ".join(column for column, _ in site.saved)
            gives = f", gives {saved} to what follows" if saved else ""
            last = "; of several in a batch with no other in between, only the last is executed" if site in overwriting else ""
            last = "; of several in a batch with no other in between, the sum is added" if site in adding else last
            lines.append(f"operation on {site.row.name}{often}: by itself{gives}{last}")
        else:
            lines.append(f"operation on {site.row.name}{often}: the whole function, since {site.why}")
    return lines or ["operations: none"]


def _versions(bound: Bound) -> str:
    if not layout.has_versions(bound.tables):
        table = next(table for table in bound.tables if table.containers)
        return f'scheme="mvlk": in the order of locks, since {table.name}.{next(iter(table.containers))} has one version only'
    size = 8 * layout.version_words(bound.tables)
    return f'scheme="mvlk": a version of {size} bytes for each row that a transaction writes, held until the end of the batch'


def _execution(bound: Bound) -> str:
    if bound.operations is not None:
        return "\n  ".join((
            'scheme="chains": an operation chain for each row, chains in parallel, without waiting',
            'chains="skiplist": made as the paper does, not by sorting',
            'sharing="nothing", unless said otherwise: each thread runs the chains of its own rows',
        ))  # fmt: skip
    shared = 'sharing="everything", unless said otherwise: an idle thread takes what another has found ready'
    whole = "whole transactions, each as soon as those before it on its rows are done"
    return f'scheme="chains": {whole}\n  {shared}'
