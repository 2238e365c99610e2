"""Which implementation tags depend on each other, for thousands of them at once.

Tags of one name and part have the same neighbours, and two names relate in one of four ways: not at all, within a part,
across parts, or always. So a walk over the graph takes whole parts, and never looks at pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headrace.synchronization.definition import Definition
from headrace.synchronization.tags import ImplementationTag

Parts = Mapping[str, set[int]]
"""Name of a tag -> its parts, of a set of implementation tags."""


class Dependence:
    """The graph of implementation tags of a program: an edge between two that depend on each other.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> program = SimpleNamespace(tags={"value": 0, "barrier": 0}, depends=lambda a, b, same_part: "barrier" in (a, b))
    >>> graph = Dependence(program)
    >>> values, barrier = [ImplementationTag("value", 0, i) for i in (0, 1)], ImplementationTag("barrier", 0, 0)
    >>> len(graph.components([*values, barrier])), len(graph.components(values))
    (1, 2)
    >>> graph.removed_until_apart([barrier, *values])
    1
    """

    def __init__(self, program: Definition):
        self._related: dict[str, list[tuple[str, bool, bool]]] = {
            a: [
                (b, same, different)
                for b in program.tags
                for same, different in [(program.depends(a, b, same_part=True), program.depends(a, b, same_part=False))]
                if same or different
            ]
            for a in program.tags
        }

    def components(self, tags: Iterable[ImplementationTag]) -> list[list[ImplementationTag]]:
        """Return the connected components, in the order of the first tag of each."""
        tags = list(tags)
        waiting: dict[str, dict[int, dict[ImplementationTag, None]]] = {}
        for tag in tags:
            waiting.setdefault(tag.tag, {}).setdefault(tag.part, {})[tag] = None
        found = []
        for first in tags:
            if first not in waiting[first.tag].get(first.part, ()):
                continue  # taken already
            del waiting[first.tag][first.part][first]
            component = [first]
            for tag in component:  # grows while it is walked
                for other, parts in self.neighbours(tag, waiting):
                    for part in parts:
                        component.extend(waiting[other].pop(part))
            found.append(component)
        return found

    def neighbours(self, tag: ImplementationTag, of: Mapping[str, Mapping[int, object]]) -> Iterator[tuple[str, list[int]]]:
        """Names and parts in the graph that depend on a tag."""
        for other, same, different in self._related[tag.tag]:
            parts = of.get(other)
            if not parts:
                continue
            if different:
                yield other, [part for part in parts if same or part != tag.part]
            elif tag.part in parts:
                yield other, [tag.part]

    def degrees(self, tags: Sequence[ImplementationTag]) -> dict[ImplementationTag, float]:
        """Return for each tag how many tags depend on it, itself included where it does."""
        return self._sums(dict.fromkeys(tags, 1))

    def runs(self, rates: Mapping[ImplementationTag, float]) -> dict[ImplementationTag, float]:
        """Return for each tag how many runs of its events per second there are at these rates.

        A run ends where an event of another tag, on which it depends, comes in between. There are no more runs than events.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> program = SimpleNamespace(tags={"value": 0, "barrier": 0}, depends=lambda a, b, same_part: "barrier" in (a, b))
        >>> values, barrier = [ImplementationTag("value", 0, i) for i in (0, 1)], ImplementationTag("barrier", 0, 0)
        >>> list(Dependence(program).runs({values[0]: 100, values[1]: 2, barrier: 5}).values())
        [5, 2, 5]
        """
        found = {}
        for tag, others in self._sums(rates).items():
            is_own = any(other == tag.tag and same for other, same, _ in self._related[tag.tag])
            found[tag] = min(rates[tag], max(0, others - rates[tag]) if is_own else others)
        return found

    def _sums(self, weights: Mapping[ImplementationTag, float]) -> dict[ImplementationTag, float]:
        """For each tag, the weights of those that depend on it, itself included where it does."""
        of_name: dict[str, float] = {}
        of_part: dict[tuple[str, int], float] = {}
        for tag, weight in weights.items():
            of_name[tag.tag] = of_name.get(tag.tag, 0) + weight
            of_part[tag.tag, tag.part] = of_part.get((tag.tag, tag.part), 0) + weight
        sums = {}
        for tag in weights:
            total: float = 0
            for other, same, different in self._related[tag.tag]:
                here = of_part.get((other, tag.part), 0)
                total += same * here + different * (of_name.get(other, 0) - here)
            sums[tag] = total
        return sums

    def removed_until_apart(self, tags: Sequence[ImplementationTag]) -> int | None:
        """Return how many tags, from the first one on, must be removed until the rest is in two pieces; None if it never is.

        The search goes backwards: tags are added from the end, so that pieces only merge.
        """
        leader: dict[ImplementationTag, ImplementationTag] = {}

        def find(tag: ImplementationTag) -> ImplementationTag:
            while leader[tag] is not tag:
                leader[tag] = leader[leader[tag]]
                tag = leader[tag]
            return tag

        # Tags by name, and by name and part; once they are known to be in one piece, one of them stands for all.
        of_name: dict[str, list[ImplementationTag]] = {}
        of_part: dict[str, dict[int, list[ImplementationTag]]] = {}
        pieces, least = 0, None
        for gone in range(len(tags) - 1, -1, -1):
            tag = tags[gone]
            leader[tag] = tag
            pieces += 1
            for other, same, different in self._related[tag.tag]:
                if same and different:
                    touched = [of_name.get(other, [])]
                elif same:
                    touched = [of_part.get(other, {}).get(tag.part, [])]
                else:
                    touched = [ones for part, ones in of_part.get(other, {}).items() if part != tag.part]
                for ones in touched:
                    for one in ones:
                        other_leader, own = find(one), find(tag)
                        if other_leader is not own:
                            leader[other_leader] = own
                            pieces -= 1
                    del ones[1:]
            of_name.setdefault(tag.tag, []).append(tag)
            of_part.setdefault(tag.tag, {}).setdefault(tag.part, []).append(tag)
            if pieces > 1:
                least = gone
        return least

    def conflict(self, left: Parts, right: Parts) -> tuple[tuple[str, int], tuple[str, int]] | None:
        """Find a name and part on each side that depend on each other."""
        for name, parts in left.items():
            for other, same, different in self._related[name]:
                there = right.get(other)
                if not there:
                    continue
                if same and (common := parts & there):
                    part = min(common)
                    return (name, part), (other, part)
                if different:
                    for part in sorted(parts)[:2]:  # two suffice: any other part differs from one of them
                        for that in sorted(there)[:2]:
                            if part != that:
                                return (name, part), (other, that)
        return None
