"""Programs: what a user writes, read and checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.codegen.state import read_state
from headrace.errors import ParameterError
from headrace.names import explains_arguments
from headrace.synchronization.checking import EXAMPLES, Checked, check
from headrace.synchronization.definition import Definition
from headrace.synchronization.reading import (
    check_by,
    check_function,
    read_depends,
    read_program_emits,
    read_states,
    read_tags,
    read_update,
)
from headrace.synchronization.tags import Every, Tag

if TYPE_CHECKING:
    from headrace.synchronization.plans import Plan

@dataclass(frozen=True, eq=False, repr=False)
class Program(Definition):
    """What `program` returns."""

    @explains_arguments(streams="inputs", workers="leaves", how="by", optimizer="by", cost="costs")
    def plan(
        self,
        inputs: Mapping[str, Any],
        leaves: int = 2,
        rates: Mapping[Any, Any] | None = None,
        by: str = "rates",
        costs: Any = None,
        threads: int | None = None,
    ) -> Plan:
        """Make a plan: which node processes which tags of which streams, and which nodes it joins. Its `repr` is a drawing.

        Parameters
        ----------
        inputs : dict
            Name of each tag -> its inputs as for a run (one, or a list of them), or its number of streams. Periodic tags
            may be left out.
        leaves : int
            Most leaves, from 1 to 64. A program without fork and join has one.
        rates : dict, optional
            Events per second: name of a tag -> a number, shared evenly by its parts and streams, or a list of one number
            for each stream; or (tag, part, stream) -> a number. By default all are equally frequent, and among equally rare
            tags the one on which the most others depend goes up.
        by : {"rates", "latency", "appendix", "chain", "flat", "best"}
            "appendix" moves the rarest tags up until the others fall apart (the paper's Appendix B). "chain" puts its leaves
            on a chain of inner nodes, one at each; "flat" on a balanced tree of which only the root owns tags. These two
            have exactly as many leaves as requested, some of them empty if there is less to share out. "rates" weighs
            rates and costs, and has fewer leaves if more would not pay; without rates it is "appendix". "latency"
            weighs them, too, and takes the plan in which an event waits the least at these rates, while it can keep up;
            rates are then per second, not ratios. "best" tries all plans, for at most 10 implementation tags.
        costs : dict, optional
            Nanoseconds that the functions take: "update" (a number, or tag -> number; tags left out cost as much as the
            costliest), "fork", "join"; "turn", to look at the mailboxes for a run of events that nothing interrupts (0 if
            updates include it); "wait", of threads for each other at a join.
        threads : int, optional
            Threads that will run the leaves; by default one for each leaf.

        Returns
        -------
        Plan
            A valid plan; others can be written by hand, or read from JSON. With rates, ``plan.predicted`` is the number of
            events per second it can take, by the model of `headrace.synchronization.prediction`.

        Examples
        --------
        >>> import headrace as hr
        >>> def count(state, e, emit):
        ...     state.n += 1
        >>> def tell(state, e, emit):
        ...     emit(n=state.n)
        >>> counter = hr.program(
        ...     tags={"inc": {}, "read": {}}, depends=[("read", "inc")], state={"n": "int64"}, emits={"n": "int64"},
        ...     update={"inc": count, "read": tell},
        ...     fork=lambda state, left, right, tags_left, tags_right: None, join=lambda into, other: None)
        >>> counter.plan({"inc": 2, "read": 1}, rates={"inc": 1000, "read": 1})
        node 0  read  1/s
        ├─ leaf 0  inc (stream 0)  500/s
        └─ leaf 1  inc (stream 1)  500/s
        predicted: 159 M events/s
        """
        from headrace.synchronization.optimizing import make_plan

        return make_plan(self, inputs, leaves, rates, by, costs, threads)

    @explains_arguments(n="examples", cases="examples")
    def check(
        self, seed: int = 0, examples: int = EXAMPLES, values: Mapping[str, Iterable[Any]] | None = None
    ) -> Checked:
        """Test whether results could depend on the plan: check the consistency laws on random states, in plain Python.

        The states are those that plans can reach, through updates, forks and joins from the first one. C1: updating and then
        joining equals joining and then updating, on either side. C2: joining what was forked gives it back. C3: events that
        do not depend on each other commute. C4, for a state by key: an event needs only its own entry.

        Parameters
        ----------
        seed : int
            Seed of the random cases; the same seed gives the same cases.
        examples : int
            Cases for each law.
        values : dict, optional
            Column -> values that it may hold, if the functions do not take all values.

        Returns
        -------
        Checked
            The number of cases. That no law failed is no proof.

        Raises
        ------
        InconsistentProgramError
            A law failed; print ``error.counterexample``, the smallest counterexample found, or run it again by
            ``error.counterexample.run()``.

        Examples
        --------
        >>> import headrace as hr
        >>> def count(state, e, emit):
        ...     state.n += 1
        >>> def tell(state, e, emit):
        ...     emit(n=state.n)
        >>> def both(state, left, right, tags_left, tags_right):
        ...     left.n = state.n
        ...     right.n = state.n
        >>> def add(into, other):
        ...     into.n += other.n
        >>> counter = hr.program(
        ...     tags={"inc": {}, "read": {}}, depends=[("read", "inc")], state={"n": "int64"}, emits={"n": "int64"},
        ...     update={"inc": count, "read": tell}, fork=both, join=add)
        >>> try:
        ...     counter.check()
        ... except hr.HeadraceError as error:
        ...     print(error.counterexample)
        state     n=1
        reached   inc()
        left      nothing
        right     nothing
        <BLANKLINE>
        forked and joined
          ─┬──┬─> n=2
           └──┘
        as it was
          ──> n=1
        """
        return check(self, seed, examples, values)

    def __repr__(self) -> str:
        fields = "; ".join(
            (f"{of} of " if of else "") + (", ".join(f"{name}: {field.kind}" for name, field in own.items()) or "none")
            for of, own in self.types.items()
        )
        emits = ", ".join(f"{name}: {kind}" for name, kind in self.emits.items())
        # Each pair of dependent tags once, in the order of the tags.
        order = list(self.tags)
        pairs = [(a, b) for i, a in enumerate(order) for b in order[i:] if any(self.dependence[a, b])]
        said = ", ".join(f"{a} and {b}" for a, b in pairs) or "nothing"
        completed = "".join(f"; {a} on {b} too, since dependence is symmetric" for a, b in self.completed)
        return (
            f"<Program {self.name!r}: tags {', '.join(map(str, self.tags.values()))}; state {fields}; emits {emits};"
            f" depend on each other: {said}{completed}>"
        )


@explains_arguments(init="state", emit="emits", outputs="emits", on="update", updates="update", dependencies="depends")
def program(
    *,
    tags: Mapping[str | Tag, Mapping[str, Any] | Every],
    update: Mapping[str, Callable | Mapping[str, Callable]],
    emits: Mapping[str, Any],
    depends: Iterable[tuple[str, str]] | Callable[[Any, Any], bool] = (),
    state: Mapping[str, Any] | None = None,
    states: Mapping[str, Mapping[str, Any]] | None = None,
    processes: Mapping[str, Iterable[str]] | None = None,
    fork: Callable | Mapping[tuple[str, str, str], Callable] | None = None,
    join: Callable | Mapping[tuple[str, str, str], Callable] | None = None,
    name: str = "program",
) -> Program:
    """Define a sequential computation, which of its events depend on each other, and how its state is forked and joined.

    The result is as if events were processed one after another, in the order (event time, input, position), whatever the
    plan that runs it.

    Parameters
    ----------
    tags : dict
        Kinds of events: name -> columns and their kinds ("int64", "float64", "bool", "string",
        "timestamp[us]"). `hr.tag` in place of a name gives it a key; with `hr.every` in place of columns, event time makes
        its events.
    update : dict
        Name of each tag -> ``f(state, e, emit)``: e has the columns and ``e.ts``; each call of ``emit(name=value, ...)``
        makes an output at the event's time, in which columns left out, or given as None, are null. Functions are compiled
        as for `hr.operator`, except that an overflow of int64 ends the run.
    emits : dict
        Columns of the outputs beside the event time: name -> kind.
    depends : list of pairs of names, or function of two tags
        Events that depend on each other are processed in their order; others may be processed at the same time. Dependence
        is symmetric: a pair (a, b) stands for (b, a), too, and `Program.completed` has the pairs added. A pair of
        two tags with keys holds within one part. A function takes two tags with ``name`` and ``part``, may compare parts, and
        returns a bool; a tag equals its name as a string, as in ``"barrier" in (a, b)``.
    state : dict, optional
        Fields of the state: name -> kind or first value, as for `hr.operator`. If all of them are
        ``hr.map_of(..., by="key")``, and "key" is the key of tags, then an event of such a tag, at an inner node, joins only
        the entries of its own key: by `join` where both sides have one. Afterwards it gives them back: by `fork` where both
        sides may process that key. All other entries stay where they are. Updates of these tags must then touch no other
        entry, which `check` tests (C4). Not with `states`.
    states : dict, optional
        In place of `state`, several types of state: name -> fields. Everything is joined to the first type, which may process
        every tag; its functions define the sequential program.
    processes : dict, optional
        Type of state -> names of the tags that it may process; all tags for types left out. A tag's update may then be a
        dict, type -> function.
    fork, join : functions, optional
        ``fork(state, left, right, tags_left, tags_right)`` reads a state and writes two new ones, which then process
        independent events: ``"barrier" in tags_left``, or ``("inc", key) in tags_left`` for a tag with keys, says whether such
        events go to the left. ``join(into, other)`` adds the second state to the first. Without
        them the program runs on one leaf. With several types of state they are dicts: the types of a state and of
        the left and right state it is forked into -> ``fork(state, left, right, tags_left, tags_right)`` or
        ``join(into, left, right)``, whose `into` is new. The type of each node of a plan is inferred (the second phase
        of Appendix B), preferring the forks given first, or set by ``hr.PlanNode(tags, children, state=)``.
        A list, set or map of a state that ends here is handed over without a copy if it is assigned as a whole and not used
        otherwise, as in ``left.counts = state.counts``.
    name : str, optional

    Returns
    -------
    Program

    Raises
    ------
    ParameterError
        An argument is invalid; the text names it.

    Notes
    -----
    Any plan gives the sequential result if the program is consistent (Theorem 2.4): joining after an update equals updating
    the joined state (C1), joining what was forked changes nothing (C2), and independent updates commute (C3).

    Examples
    --------
    The sum of values between two barriers:

    >>> import headrace as hr
    >>> def add(state, e, emit):
    ...     state.sum += e.x
    >>> def close(state, e, emit):
    ...     emit(sum=state.sum)
    ...     state.sum = 0
    >>> def split(state, left, right, tags_left, tags_right):
    ...     if "barrier" in tags_right:
    ...         right.sum = state.sum
    ...     else:
    ...         left.sum = state.sum
    >>> def merge(into, other):
    ...     into.sum += other.sum
    >>> window = hr.program(
    ...     tags={"value": {"x": "int64"}, "barrier": {}},
    ...     depends=[("barrier", "barrier"), ("barrier", "value")],
    ...     state={"sum": "int64"}, emits={"sum": "int64"},
    ...     update={"value": add, "barrier": close}, fork=split, join=merge)
    >>> window.depends("value", "value"), window.depends("value", "barrier"), window.completed
    (False, True, (('value', 'barrier'),))

    As plain Python, one event after another, where a debugger's breakpoints work and everything can be printed; the rows of
    an Arrow table are ``[(row["ts"], row) for row in table.to_pylist()]``:

    >>> from headrace.reference import synchronization
    >>> synchronization.run(window, [("value", [(1, {"x": 5}), (2, {"x": 6})]), ("barrier", [(3, {})])])
    [{'ts': 3, 'sum': 11}]

    With a second type of state, which only adds and knows nothing of barriers:

    >>> def halve(state, left, right, tags_left, tags_right):
    ...     left.sum = state.sum
    >>> def together(into, left, right):
    ...     into.sum = left.sum + right.sum
    >>> ways = [("all", "part", "part"), ("part", "part", "part")]
    >>> typed = hr.program(
    ...     tags={"value": {"x": "int64"}, "barrier": {}}, depends=[("barrier", "barrier"), ("barrier", "value")],
    ...     states={"all": {"sum": "int64"}, "part": {"sum": "int64"}}, processes={"part": ["value"]}, emits={"sum": "int64"},
    ...     update={"value": add, "barrier": close}, fork=dict.fromkeys(ways, halve), join=dict.fromkeys(ways, together))
    >>> typed.plan({"value": 2, "barrier": 1})
    node 0 (all)  barrier
    ├─ leaf 0 (part)  value (stream 0)
    └─ leaf 1 (part)  value (stream 1)
    """
    known = read_tags(tags)
    if not isinstance(name, str) or not name.isidentifier():
        raise ParameterError(f"program(name={name!r}): give a name, as Python has them")
    if states is not None:
        if state is not None:
            raise ParameterError("program(state=..., states=...): give one of them; one type of state is state=")
        given = read_states(states, processes, fork, join, update, known)
        dependence, completed = read_depends(depends, known)
        first = next(iter(given["states"].values()))
        return Program(
            name, known, first, read_program_emits(emits), fork=None, join=None, completed=completed,
            dependence=dependence, **given,
        )
    if processes is not None:
        raise ParameterError("program(processes=...) says what types of state may process; give them too, as states=")
    functions = read_update(update, known)
    for one, function in functions.items():
        if isinstance(function, Mapping):
            raise ParameterError(f"update: {one}={{...}}: a dict is for several types of state; give them too, as states=")
    if (fork is None) != (join is None):
        given, missing = ("fork", "join") if join is None else ("join", "fork")
        raise ParameterError(
            f"program({given}=...) without {missing}=: what is forked is joined again; give both, or none of them for one leaf"
        )
    for label, function in (("fork", fork), ("join", join)):
        if isinstance(function, Mapping):
            raise ParameterError(f"program({label}={{...}}): a dict is for several types of state; give them too, as states=")
        if function is not None:
            check_function(label, function, label)
    dependence, completed = read_depends(depends, known)
    fields = read_state(state, has_keyed_tags=True)
    check_by(fields, known)
    return Program(name, known, fields, read_program_emits(emits), functions, fork, join, completed, dependence)
