"""Method: what the drawings say is compared with what the engine does; how they are drawn is read from their SVG.

The gate of the drawing hands on what the engine's own gate hands on, for arrivals that Hypothesis draws. Counts in the
drawings of threads are compared with a plain count of the rows each thread has read, balances with one transfer after
another. Reorder buffer and delegation do what is right for any order of events: all that is complete has left, in order;
each bucket's tuples have run in order, each once. Every picture is well-formed, keeps
within its frame, and says in words what it shows.

What this cannot see: whether a drawing is beautiful, or its text legible. `make notebooks` shows that.
"""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.gates import MergedLog
from headrace_widgets import diagrams
from headrace_widgets.diagrams.chains import FIRST, TRANSFERS
from headrace_widgets.diagrams.chains import STEPS as BATCH
from headrace_widgets.diagrams.delegation import State
from headrace_widgets.diagrams.reconfiguration import AFTER, BEFORE
from headrace_widgets.diagrams.reconfiguration import CUT as RECORD_AT
from headrace_widgets.diagrams.reconfiguration import STEPS as CHANGE
from headrace_widgets.diagrams.reconfiguration import STREAM as CHANGED_STREAM
from headrace_widgets.diagrams.shapes import WIDTH
from headrace_widgets.diagrams.sharing import KEYS, STEPS, STREAM

IMAGES = Path(__file__).resolve().parents[2] / "notebooks" / "images"
DRAWINGS = pytest.mark.parametrize("name", diagrams.ALL)
SVG = "{http://www.w3.org/2000/svg}"


def handed_on(caption):
    """Tuples that a caption names as handed on: (time, source)."""
    said = re.search(r"handed on: (.*?)\.(?: |$)", caption)
    return [(int(t), int(s)) for t, s in re.findall(r"(\d+) of source (\d+)", said[1])] if said else []


@st.composite
def arrivals(draw):
    """Tuples and heartbeats of up to three sources, the times of each non-decreasing."""
    clock, found = [0, 0, 0], []
    for source in [*range(draw(st.integers(1, 3))), *draw(st.lists(st.integers(0, 2), max_size=12))]:
        clock[source] += draw(st.integers(0, 3))
        is_heartbeat = draw(st.booleans())
        found.append((clock[source], source, "heartbeat") if is_heartbeat else (clock[source], source))
    return found


@given(arrivals())
def test_oracle_the_drawn_gate_is_the_engines(brought):
    steps = diagrams.gate(brought).steps
    gate = MergedLog(sources=1 + max(source for _, source, *_ in brought))
    assert handed_on(steps[0].caption) == []
    for (time, source, *kind), step in zip(brought, steps[1:], strict=True):
        if kind:
            gate.heartbeat(source, time)
        else:
            gate.add(time, source)
        ready = [(r.ts, r.source) for r in iter(lambda: gate.get(0), None) if r.is_tuple]
        assert handed_on(step.caption) == ready, step.caption


def test_example_a_source_that_goes_back_is_refused():
    with pytest.raises(ValueError, match="time 2 of source 0: below 3"):
        diagrams.gate([(3, 0), (2, 0)])


def words(step):
    """What is written in a picture."""
    return [each.text for each in ET.fromstring(f"<svg>{step.drawing}</svg>").iter("text")]


def counts(step):
    """The state in a picture: count of each key."""
    found = (re.fullmatch(r"(\w+): (\d+)", each) for each in words(step))
    return {match[1]: int(match[2]) for match in found if match}


def test_example_each_key_is_counted_by_its_owner():
    drawn = diagrams.sharing().steps
    for (read, _), step in zip(STEPS, drawn, strict=True):
        assert counts(step) == {key: STREAM[: read[owner]].count(key) for key, owner in KEYS.items()}
    assert counts(drawn[-1]) == Counter(STREAM)


def test_example_a_reconfiguration_counts_every_row_once():
    for (read, placed, epoch, _), step in zip(CHANGE, diagrams.reconfiguration().steps, strict=True):
        # Row by row: which thread owns its key there, and has it read the row?
        expected = dict.fromkeys(BEFORE, 0)
        for place, key in enumerate(CHANGED_STREAM):
            owner = (BEFORE if place < RECORD_AT else AFTER)[key]
            expected[key] += place < (read[owner] or 0) and (place < RECORD_AT or epoch == 1)
        assert counts(step) == expected
        assert placed == ("control record" in words(step))
    assert {key for key in BEFORE if BEFORE[key] != AFTER[key]} == {"b", "c"}, "the words name those"


def test_example_chains_give_what_one_transfer_after_another_gives():
    drawn = diagrams.chains().steps
    serial, present = [], dict(FIRST)
    for source, target, amount in TRANSFERS:
        if is_paid := present[source] >= amount:
            present = {**present, source: present[source] - amount, target: present[target] + amount}
        serial.append(is_paid)
    assert counts(drawn[-1]) == present and serial.count(False) == 1
    before = set()
    for (ran, _, _), step in zip(BATCH, drawn, strict=True):
        assert ("rejected" in words(step)) == any(number in range(5) and not serial[number] for number in _ran(ran))
        # The first event of this step had all before it on its accounts done, and shares none with the others of the step.
        new = _ran(ran) - before
        for number in new:
            earlier = {one for one in range(number) if {*TRANSFERS[one][:2]} & {*TRANSFERS[number][:2]}}
            assert earlier <= before
        assert len({ran[number] for number in new}) == len(new), "a thread runs one at a time"
        before = _ran(ran)
    assert sum(counts(drawn[0]).values()) == sum(present.values()) == 40


@given(st.data(), st.integers(1, 5))
def test_oracle_the_drawn_reorder_buffer_leaves_nothing_behind(data, slots):
    """Events in any order that the buffer allows; what is passed on is what lies before the first missing output."""
    events, put, holds, first = [], set(), False, 1
    for _ in range(data.draw(st.integers(0, 20))):
        free = [number for number in range(first, first + slots) if number not in put]
        kind = data.draw(st.sampled_from((["put"] if free else []) + (["send", "clear"] if holds else [])))
        events.append((kind, data.draw(st.integers(0, 2)), data.draw(st.sampled_from(free))) if kind == "put" else (kind,))
        if kind == "put":
            put.add(events[-1][2])
        elif kind == "send":
            while first in put:
                first += 1
        # Nobody gives the flag back for good while there is something to pass on.
        holds = first in put if kind == "clear" else holds or first in put
        drawn = diagrams.reorder_buffer(events, slots).steps[-1]
        assert f"next: {first}" in words(drawn)
        assert ("flag: free" in words(drawn)) == (not holds), drawn.caption
        passed_on = [box for box, y in _boxes(drawn) if y == 188]
        assert passed_on == [str(number) for number in range(1, first)]


def test_example_the_reorder_buffer_shows_why_nobody_waits():
    steps = diagrams.reorder_buffer().steps
    assert "does not wait" in steps[4].caption and "came meanwhile" in steps[5].caption
    assert "flag: free" in words(steps[-1]) and "next: 4" in words(steps[-1])


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([("put", 0, 5)], "put 5: next is 1"),
        ([("put", 0, 2), ("put", 1, 2)], "put 2: it is there"),
        ([("put", 0, 2), ("send",)], "send: nobody"),
        ([("clear",)], "clear: nobody"),
    ],
)
def test_example_a_reorder_buffer_that_cannot_be(events, said):
    with pytest.raises(ValueError, match=said):
        diagrams.reorder_buffer(events)


def _boxes(step):
    """Words in boxes, and the y of each."""
    found, y = [], None
    for each in ET.fromstring(f"<svg>{step.drawing}</svg>"):
        if each.tag == "rect":
            y = float(each.get("y"))
        elif each.tag == "text" and y is not None:
            found.append((each.text, y))
            y = None
        else:
            y = None
    return found


@given(st.data(), st.text("abc", min_size=1, max_size=8))
def test_oracle_delegation_runs_each_bucket_in_order(data, keys):
    """Two or three threads in any order, until nothing is left."""
    state, events, order = State(keys), [], []
    while len(state.ran) < len(keys):
        can = [("done", thread) for thread in state.running]
        can += [("take", thread) for thread in range(3) if thread not in state.running and state.taken < len(keys)]
        kind, thread = event = data.draw(st.sampled_from(can))
        if kind == "done":
            order.append(state.running[thread])
        getattr(state, kind)(thread)
        events.append([event])
        hands = [keys[number - 1] for number in state.running.values()]
        assert len(hands) == len(set(hands)), "a bucket is run by one thread at a time"
        for key in set(keys):
            taken, done = keys[: state.taken].count(key), sum(keys[number - 1] == key for number in order)
            assert state.count[key] == taken - done
    assert sorted(order) == list(range(1, len(keys) + 1))
    for key in set(keys):
        of_key = [number for number in order if keys[number - 1] == key]
        assert of_key == sorted(of_key)
    last = diagrams.delegation(keys, events).steps[-1]
    assert {f"count {key}: 0" for key in keys} <= set(words(last))


def test_example_delegation_shows_two_that_are_left_to_another_thread():
    steps = diagrams.delegation().steps
    said = [step.caption for step in steps]
    assert sum(caption.count("as well") for caption in said) == 2
    assert {"count a: 0", "count b: 0"} <= set(words(steps[-1]))
    for events, wrong in (([[("done", 0)]], "nothing in hand"), ([[("take", 0)], [("take", 0)]], "has 1 in hand")):
        with pytest.raises(ValueError, match=wrong):
            diagrams.delegation("ab", events)
    with pytest.raises(ValueError, match="master queue is empty"):
        diagrams.delegation("a", [[("take", 0)], [("take", 1)]])


def _ran(ran):
    return {number for number, thread in enumerate(ran) if thread is not None}


@DRAWINGS
def test_example_pictures_are_well_formed_and_within_their_frame(name):
    drawing = diagrams.ALL[name]()
    for step in drawing.steps:
        for each in ET.fromstring(f"<svg>{step.drawing}</svg>").iter():
            for x in ("x", "x1", "x2", "cx"):
                assert -1 <= float(each.get(x, 0)) <= WIDTH, (step.caption, each.attrib)
            for y in ("y", "y1", "y2", "cy"):
                assert -1 <= float(each.get(y, 0)) <= drawing.height, (step.caption, each.attrib)
            if each.tag == "rect":
                assert float(each.get("x")) + float(each.get("width")) <= WIDTH
                assert float(each.get("y")) + float(each.get("height")) <= drawing.height


@DRAWINGS
def test_example_the_page_steps_by_itself(name):
    drawing = diagrams.ALL[name]()
    html, again = drawing._repr_html_(), drawing._repr_html_()
    style, body = re.fullmatch(r"<style>(.*)</style>(.*)", html, flags=re.DOTALL).groups()
    root = ET.fromstring(body)
    radios = [each.get("id") for each in root.findall("input")]
    sections = root.findall("div/section")
    assert len(radios) == len(drawing.steps) + 1 and len(sections) == len(drawing.steps)
    assert [each.get("id") for each in root.findall("input") if "checked" in each.attrib] == radios[:1]
    for i, (section, step) in enumerate(zip(sections, drawing.steps, strict=True)):
        assert f"#{radios[i]}:checked~div>section:nth-child({i + 1})" in style
        others = [i - 1] * (i > 0) + [i + 1] * (i + 1 < len(sections))
        assert [label.get("for") for label in section.findall("nav/label")] == [radios[other] for other in others]
        assert section.find("p").text == step.caption
        assert step.caption in section.find(f"{SVG}svg").get("aria-label")
    assert "@media print" in style and "<script" not in html
    # Two of one kind on a page do not choose each other's steps.
    assert not set(radios) & set(re.findall(r'id="([\w-]+)"', again))


@DRAWINGS
def test_example_the_files_beside_the_notebooks_are_drawn_anew(name, tmp_path):
    drawing = diagrams.ALL[name]()
    text = drawing.save(tmp_path / "drawn.svg").read_text()
    root = ET.fromstring(text)
    assert root.find(f"{SVG}title").text == drawing.title
    assert all(step.caption in root.find(f"{SVG}desc").text for step in drawing.steps)
    kept = (IMAGES / f"{name}.svg").read_text()
    assert kept == text, f"run: python -m headrace_widgets.diagrams {IMAGES}"
