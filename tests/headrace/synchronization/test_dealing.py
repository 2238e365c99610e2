"""Events that wait, dealt out to the mailboxes of another plan.

Property    each row that is not processed is in the new mailbox of its tag, once, in order, in as few runs as can be; a run
            says when its first row comes in event time, and when the first of the runs was published that it is made of
Oracle      a list of rows for each mailbox
Planted     each names the rows that it loses, or has twice
Cannot see  that everything is at rest meanwhile (test_interleave.py), and what follows (test_random_programs.py)
"""

import random
from types import SimpleNamespace

import numpy as np
import pytest

from headrace.ingress.store import Store, allocate_directories, directory_width
from headrace.memory.atomics import CELL
from headrace.synchronization import arrays, dealing_kernel, mailbox_kernel, replanning, words
from headrace.synchronization.inlet import TAGS
from headrace.synchronization.replanning import Replanning
from planted_mistakes import fails, planted

MOST_QUEUES = 4
CELLS = words.QUEUE_CELLS * CELL


def waiting_input(rng, rows, tags):
    """An input with rows in mailboxes, of which some are processed; its tags, and the rows that are not."""
    x = allocate_directories(1, 1)
    store = Store({TAGS: np.dtype(np.int64)}, False, x[0])
    ts = np.sort(np.array([rng.randrange(rows) for _ in range(rows)], np.int64))
    tag, of_row = 0, np.zeros(rows, np.int64)
    for row in range(rows):
        tag = rng.randrange(tags) if rng.random() < 0.3 else tag
        of_row[row] = tag
    store.append(ts, None, None, {TAGS: (of_row, None)}, None)
    c = arrays.allocate(1, [directory_width(1)], [True], MOST_QUEUES, 1, 16)
    routes = np.array([rng.randrange(MOST_QUEUES) for _ in range(tags)], np.int32)
    c.given[0, [words.FIRST_QUEUE, words.END_QUEUE]] = 0, MOST_QUEUES
    done = 0
    while done < rows and (taken := mailbox_kernel.add(c, 0, ts, routes[of_row], done, rng.randint(1, rows - done), done, 1024)):
        done += taken
    left = []
    for q in range(MOST_QUEUES):
        mine = [row for row in range(done) if routes[of_row[row]] == q]
        passed = rng.choice([0, len(mine), rng.randint(0, len(mine))])
        left += mine[passed:]
        pass_over(c.queue[q * CELLS :], c.runs, q, passed)
    return c, x, store, of_row, ts, sorted(left)


def pass_over(queue, runs, q, passed):
    """Process events, as far as a mailbox is concerned."""
    head = 0
    while passed:
        place = mailbox_run(q, head)
        length = int(runs[place + words.END] - runs[place + words.FIRST])
        if length > passed:
            break
        passed, head = passed - length, head + 1
    queue[words.HEAD], queue[words.AT] = head, passed


def mailbox_run(q, number):
    return (q * words.RUNS + (number & (words.RUNS - 1))) * words.RUN_WORDS


def check_dealing(seed):
    rng = random.Random(seed)
    tags = rng.randint(1, 3)
    c, x, store, of_row, ts, left = waiting_input(rng, rng.choice([1, 7, 60, 17_000]), tags)
    routes = [rng.randrange(MOST_QUEUES) for _ in range(tags)]
    column = store.names.index(TAGS) if tags > 1 else -1
    section = SimpleNamespace(arrays=c, directories=x, feeders=[SimpleNamespace(tag_column=column)])
    dealt = Replanning(section)._deal(0, SimpleNamespace(routes=[routes]))
    assert len(dealt) <= words.RUNS * MOST_QUEUES
    c.queue[:] = 0
    dealing_kernel.put(c, dealt)
    for q in range(MOST_QUEUES):
        queue, found, firsts = c.queue[q * CELLS :], [], []
        assert queue[words.TAIL] == queue[words.PENDING] and queue[words.HEAD] == queue[words.AT] == 0
        for number in range(int(queue[words.TAIL])):
            first, end, first_ts, published = c.runs[mailbox_run(q, number) :][: words.RUN_WORDS].tolist()
            assert first_ts == ts[first] and published > 0
            found += range(first, end)
            firsts.append(first)
        wanted = [row for row in left if routes[of_row[row]] == q]
        assert found == wanted, "other rows"
        assert firsts == [row for k, row in enumerate(wanted) if k == 0 or wanted[k - 1] != row - 1], "not the fewest runs"
        assert queue[words.COUNTED] == len(wanted)


@pytest.mark.parametrize("seed", range(40))
def test_oracle_rows_that_wait_are_dealt_out(seed):
    check_dealing(seed)


@pytest.mark.interpreted
@pytest.mark.parametrize(("module", "text", "mistake", "expected"), [
    (dealing_kernel, "                runs[at, FIRST] += begin\n", "                pass\n", "other rows"),
    (dealing_kernel, "                begin = 0\n", "                pass\n", "other rows"),
    (dealing_kernel, " and dealt[count - 1, END] == row:", ":", "other rows"),
    (dealing_kernel, "dealt[count - 1, QUEUE] == q and ", "", "other rows"),
    (dealing_kernel, "q = routes[tags[at] if tag_column >= 0 else 0]", "q = routes[0]", "other rows"),
    (replanning, 'return runs[np.argsort(runs[:, words.FIRST], kind="stable")]', "return runs", "other rows"),
], ids=["processed ones again", "every run cut", "over a gap", "over another's", "all to one", "by mailbox"])  # fmt: skip
def test_planted_a_mistake_in_dealing_is_found(module, text, mistake, expected):
    with planted(module, text, mistake), fails(f"AssertionError: {expected}"):
        for seed in range(40):
            check_dealing(seed)
