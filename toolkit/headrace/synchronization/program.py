"""Programs: what a user writes of one, read and checked."""

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
        """Make a plan: who processes which tags of which streams, and who joins whom. It draws itself.

        Parameters
        ----------
        inputs : dict
            Name of each tag -> its inputs as for a run (one, or a list of them), or how many streams it has. Periodic tags
            may be left out.
        leaves : int
            How many at most, from 1 to 64. A program without fork and join has one.
        rates : dict, optional
            Events per second: name of a tag -> a number, shared evenly by its parts and streams, or a list of one number
            a stream; or (tag, part, stream) -> a number. Without them all come equally often, and of tags that are
            equally rare the one goes up on which the most others depend.
        by : {"rates", "latency", "appendix", "chain", "flat", "best"}
            "appendix": the rarest tags go up until the others fall apart (the paper's Appendix B). Its leaves on a chain
            of inner nodes, one at each: "chain". On a balanced tree of which only the root owns tags: "flat". These two
            have exactly as many leaves as asked for, some of them empty where there is less to share out. "rates" weighs
            rates and costs, and has fewer leaves where more would not pay; without rates it is "appendix". "latency"
            weighs them too, and takes the plan in which an event waits the least at these rates, while it can keep up:
            rates are per second then, not ratios. "best" tries all plans there are, for at most 10 implementation tags.
        costs : dict, optional
            Nanoseconds that the functions take: "update" (a number, or tag -> number), "fork", "join".
        threads : int, optional
            That will run the leaves; as many as leaves if not given.

        Returns
        -------
        Plan
            A valid one; another can be written by hand, or read from JSON. With rates, ``plan.predicted`` is how many
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
        predicted: 195 M/s
        """
        from headrace.synchronization.optimizing import make_plan

        return make_plan(self, inputs, leaves, rates, by, costs, threads)

    @explains_arguments(n="examples", cases="examples")
    def check(
        self, seed: int = 0, examples: int = EXAMPLES, values: Mapping[str, Iterable[Any]] | None = None
    ) -> Checked:
        """Try to show that results would depend on the plan: the consistency laws on random states, in plain Python.

        States are those that plans can reach, through updates, forks and joins from the first one. C1: updating and then
        joining is joining and then updating, on either side. C2: joining what was forked gives it back. C3: events that
        do not depend on each other may change places. C4, of a state by key: an event's own entry is all that it needs.

        Parameters
        ----------
        seed : int
            Of what is drawn; the same seed draws the same.
        examples : int
            Cases of each law.
        values : dict, optional
            Column -> values that it may hold, where the functions do not take just any.

        Returns
        -------
        Checked
            How many cases there were. That no law failed is no proof.

        Raises
        ------
        InconsistentProgramError
            With the smallest counterexample that was found: print ``error.counterexample``, run it again by
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
        # Of two tags that depend on each other, the pair in the order of the tags.
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
    """Say what a sequential computation is, which of its events depend on each other, and how its state splits.

    The result is that of one event after another, in the order of events (event time, input, position), whatever the
    plan that runs it.

    Parameters
    ----------
    tags : dict
        What kinds of events there are: name -> columns and their kinds ("int64", "float64", "bool", "string",
        "timestamp[us]"). `hr.tag` in place of a name gives it a key; `hr.every` in place of columns has event time make
        its events.
    update : dict
        Name of each tag -> ``f(state, e, emit)``: e has the columns and ``e.ts``; ``emit(name=value, ...)`` makes an
        output at the event's time, as often as it is called; what it leaves out is null. Functions are compiled, as those of
        `hr.operator`, but for integers that leave the range of int64: these end the run.
    emits : dict
        Columns of the outputs beside the event time: name -> kind.
    depends : list of pairs of names, or function of two tags
        Events that depend on each other are processed in their order; those that do not, at the same time. Dependence
        is symmetric: what is said of (a, b) holds of (b, a), and `Program.completed` tells what was added. A pair of
        two tags with keys means: of one part. A function is given tags with ``name`` and ``part``, may compare parts, and
        returns a bool; a tag equals the string that is its name, as in ``"barrier" in (a, b)``.
    state : dict, optional
        Fields of the state: name -> kind or first value, as of `hr.operator`. Where all of them are
        ``hr.map_of(..., by="key")``, and "key" is the key of tags, an event of such a tag joins, at a node above others, the
        entries of its own key alone, by `join` where both sides have one, and gives them back, by `fork` where both sides
        may process that key; all other entries stay where they are. Updates of these tags then touch no other entry,
        which `check` tries (C4). Not with `states`.
    states : dict, optional
        In place of `state`, several types of it: name -> fields. The first is what everything is joined to: the sequential
        program is that of its functions, and it may process every tag.
    processes : dict, optional
        Type of state -> names of the tags that it may process; all, where it is left out. A tag's update may then be a
        dict, type -> function.
    fork, join : functions, optional
        ``fork(state, left, right, tags_left, tags_right)`` reads a state and writes two new ones, which then process
        independent events: ``"barrier" in tags_left`` says whether events of this tag will come left,
        ``("inc", key) in tags_left`` of a tag with keys. ``join(into, other)`` adds the second to the first. Without
        them the program runs on one leaf. With several types of state they are dicts, from the types of a state and of
        the left and the right one it is forked into to ``fork(state, left, right, tags_left, tags_right)`` and
        ``join(into, left, right)``, whose `into` is new. Which type each node of a plan has is found out (the second phase
        of Appendix B), the forks that are given first are preferred, or said by ``hr.PlanNode(tags, children, state=)``.
        A list, set or map of a state that ends here, assigned as a whole and not used besides, as in
        ``left.counts = state.counts``, is handed over without a copy.
    name : str, optional

    Returns
    -------
    Program

    Raises
    ------
    ParameterError
        Naming what cannot be meant.

    Notes
    -----
    Any plan gives the sequential result if the program is consistent (Theorem 2.4): joining after an update is updating
    what was joined (C1), joining what was forked changes nothing (C2), independent updates may change places (C3).

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

    As plain Python, one event after another, where a debugger's breakpoints hold and everything can be printed; of an Arrow
    table, rows are ``[(row["ts"], row) for row in table.to_pylist()]``:

    >>> from headrace.reference import synchronization
    >>> synchronization.run(window, [("value", [(1, {"x": 5}), (2, {"x": 6})]), ("barrier", [(3, {})])])
    [{'ts': 3, 'sum': 11}]

    With a type of state for what only sums up, which knows nothing of barriers:

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
