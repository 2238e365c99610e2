"""The text of a loop's module: each step is a function that passes its tuple to the next one, and the last one stores it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.codegen import batch_texts
from headrace.codegen.bindings import Texts, widened
from headrace.codegen.functions import FieldBinding, GeneratedFunction, Unreadable, specialise
from headrace.codegen.stateless.steps import Filter, Map, Step, computed_by, function_of, returns_value

COUNT, FULL, ROW, EMITTED = 0, 1, 2, 3
"""Words of `loop_words`: how many results are stored, whether there was no room for more, the current row, and from
`EMITTED` on, how often each map emitted for it."""


@dataclass(frozen=True)
class Template:
    """Everything that the text of a loop depends on.

    Attributes
    ----------
    steps : list of Filter, Map, FlatMap
    columns : tuple of str
        Columns of the input that are passed, by the names that functions use.
    nullable : bool
        Whether they may have nulls.
    texts : Texts or None
        How strings are represented; None: there are none.
    debug : bool
    """

    steps: Sequence[Step]
    columns: tuple[str, ...]
    nullable: bool
    texts: Texts | None
    debug: bool

    @property
    def arrays(self) -> list[str]:
        """Parameters of the loop and of each step, beside those that carry a tuple."""
        inputs = [f"c_{name}" for name in self.columns]
        if self.nullable:
            inputs += [f"v_{name}" for name in self.columns]
        if self.texts is not None:
            inputs += batch_texts.ARRAYS
        return [*inputs, "source", *(f"o_{name}" for name in computed_by(self.steps)), "loop_words", "stop"]

    def functions(
        self, bindings: Mapping[str, FieldBinding | Unreadable]
    ) -> tuple[list[GeneratedFunction], set[str]]:
        """Rewrite the functions of the steps; also returns the columns of the input that they read."""
        arrays, kinds = self.arrays, computed_by(self.steps)
        current = dict(bindings)
        scalars: dict[str, str] = {}  # column -> parameter that carries its computed value
        generated: list[GeneratedFunction] = []
        read: set[str] = set()
        for index, step in enumerate(self.steps):
            options: dict[str, Any] = {"arguments": ("t",), "returns": "truth"}
            after = dict(scalars)
            if not isinstance(step, Filter):
                after.update({name: f"m{index}_{name}" for name in step.columns})
                # By position: a column may have any name, "values" too.
                place = {name: f"{{{position}}}" for position, name in enumerate(step.columns)}
                given = [place.get(name, value) for name, value in after.items()]
                emit = f"step_{index + 1}({', '.join(['row', *given, *arrays])})"
                if isinstance(step, Map):
                    emit = f"loop_words[{EMITTED + index}] += 1\n{emit}"
                if returns_value(step):
                    options = {"arguments": ("t",), "returns": next(iter(step.columns.values()))}
                else:
                    options = {"arguments": ("t", "emit"), "emits": step.columns, "emit": emit}
            function = specialise(
                function_of(step),
                name=f"user_{index}",
                bindings={"t": current},
                parameters=("row", *scalars.values(), *arrays),
                poll="load_acquire(stop, 0) != 0",
                debug=self.debug,
                texts=self.texts,
                **options,
            )
            generated.append(function)
            read |= {name for name in function.reads.get("t", ()) if name not in scalars}
            for name, value in after.items():
                seen = kinds[name].in_functions
                current[name] = FieldBinding(widened(value, seen), kind="string" if seen == "string" else None)
            scalars = after
        return generated, read

    def module(self, generated: Sequence[GeneratedFunction]) -> str:
        """Return the module's source, whose ``run`` is the loop."""
        arrays = self.arrays
        imports = {line for function in generated for line in function.imports}
        imports.add("from headrace.codegen.modules import compiled")
        imports.add("from headrace.memory.atomics import load_acquire")
        chunks = ["\n".join(sorted(imports))]
        scalars: dict[str, str] = {}
        for index, (step, function) in enumerate(zip(self.steps, generated, strict=True)):
            head = f"@compiled\ndef step_{index}({', '.join(['row', *scalars.values(), *arrays])}):\n"
            call = function.signature
            after = dict(scalars)
            if isinstance(step, Filter):
                following = ", ".join(["row", *scalars.values(), *arrays])
                body = f"    if {call}:\n        step_{index + 1}({following})\n"
            else:
                after.update({name: f"m{index}_{name}" for name in step.columns})
                if returns_value(step):
                    value = after[next(iter(step.columns))]
                    following = ", ".join(["row", *after.values(), *arrays])
                    body = f"    {value} = {call}\n    step_{index + 1}({following})\n"
                elif isinstance(step, Map):
                    word = f"loop_words[{EMITTED + index}]"
                    body = f"    {word} = 0\n    {call}\n    if {word} != 1:\n"
                    body += "        raise ValueError('map must emit exactly once for each tuple')\n"
                else:
                    body = f"    {call}\n"
            chunks += [function.source, head + body.rstrip("\n")]
            scalars = after
        store = "\n".join(f"    o_{name}[count] = {value}" for name, value in scalars.items())
        names = ", ".join(["row", *scalars.values(), *arrays])
        chunks.append(
            f"@compiled\ndef step_{len(self.steps)}({names}):\n"
            f"    count = loop_words[{COUNT}]\n"
            f"    if count == source.size:\n"
            f"        loop_words[{FULL}] = 1\n"
            f"        return\n"
            f"    source[count] = row\n{store}\n"
            f"    loop_words[{COUNT}] = count + 1"
        )
        chunks.append(
            f"@compiled\ndef run(start, end, {', '.join(arrays)}):\n"
            f"    for row in range(start, end):\n"
            f"        loop_words[{ROW}] = row\n"
            f"        count = loop_words[{COUNT}]\n"
            f"        step_0({', '.join(['row', *arrays])})\n"
            f"        if loop_words[{FULL}] != 0:\n"
            f"            # Not all results of this row fit: they are made again in larger arrays.\n"
            f"            loop_words[{FULL}] = 0\n"
            f"            loop_words[{COUNT}] = count\n"
            f"            return row\n"
            f"    return end"
        )
        return "\n\n\n".join(chunks) + "\n"
