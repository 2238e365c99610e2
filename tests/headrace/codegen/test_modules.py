"""Generated modules: the same text is compiled once per machine, and a bad cache never shows in results.

Method      Real processes: a child loads a module, calls it and prints Numba's
            own counts of cache hits and misses. Damage and permissions are made
            on the real files.
Cannot see  Two machines sharing a home directory, other processors.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import stat
import subprocess
import sys
import textwrap
import warnings
from collections import Counter

import numpy as np
import pytest

from headrace.caches import directory, identity, machine_code
from headrace.codegen import modules
from headrace.codegen.modules import CacheWarning, cache_directory, load_module
from headrace.kernel import JIT

needs_compiler = pytest.mark.skipif(not JIT, reason="the interpreter has no machine code to cache")

SOURCE = textwrap.dedent(
    """
    import numpy as np
    from headrace.codegen.modules import compiled, compiled_user
    from headrace.memory.atomics import load_acquire

    @compiled_user
    def helper(x, divisor):
        return x // divisor

    @compiled
    def total(values, divisor):
        result = 0
        for i in range(values.size):
            result += helper(values[i], divisor)
        return result + load_acquire(values, 0)
    """
)

CHILD = """
import json, sys, warnings
import numpy as np
from headrace.codegen.modules import load_module
source, debug, entry = json.loads(sys.stdin.read())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    module = load_module(source, "total", debug=debug, entry=entry)
    answer = int(module.total(np.arange(10), 2))
stats = module.total.stats
print(json.dumps(dict(answer=answer, hits=sum(stats.cache_hits.values()),
    misses=sum(stats.cache_misses.values()), name=module.__name__,
    warnings=[str(w.message) for w in caught])))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache directory, and a process that has loaded nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(modules, "_loaded", {})
    monkeypatch.setattr(directory, "_warned", set())
    return tmp_path / "cache"


def kept(pattern="*"):
    """Files of compiled code."""
    return list((cache_directory().parent / "machine-code").glob(f"{pattern}.nbc"))


def child(source=SOURCE, debug=False, entry=None, **environment):
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps([source, debug, entry]),
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@needs_compiler
def test_example_second_process_compiles_nothing(cache):
    first, second = child(), child()
    assert first["answer"] == second["answer"] == 20
    assert (first["hits"], first["misses"]) == (0, 1)
    assert (second["hits"], second["misses"]) == (1, 0)
    assert first["name"] == second["name"]
    assert second["warnings"] == []


@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize("debug", [False, pytest.param(True, marks=pytest.mark.campaign)])
def test_example_parts_are_linked_into_the_entry(cache, debug):
    """The machine code that is kept is the entry's alone, and holds all it needs."""
    first, second = child(entry="total", debug=debug), child(entry="total", debug=debug)
    assert first["answer"] == second["answer"] == 20
    assert (first["misses"], second["hits"]) == (1, 1)
    assert first["name"] != child()["name"]
    names = [path.name.split("-")[0].rpartition(".")[2] for path in kept("op_*")]
    assert sorted(names) == ["helper", "total", "total"]  # the module without an entry keeps both


@needs_compiler
def test_example_parts_raise_what_they_raised_and_refuse_python(cache):
    module = load_module(SOURCE, "total", entry="total")
    with pytest.raises(ZeroDivisionError):
        module.total(np.arange(10), 0)
    assert module.total(np.arange(10), 2) == 20
    with pytest.raises(TypeError):
        module.helper(4, 2)


@pytest.mark.slow
@needs_compiler
def test_example_cache_ignores_a_shared_numba_cache_dir(cache, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    child(NUMBA_CACHE_DIR=str(shared))
    assert not list(shared.rglob("op_*"))
    assert kept("op_total.*")


def test_example_same_text_same_module(cache):
    first = load_module("x = 1", "a")
    assert load_module("x = 1", "a") is first
    assert load_module("x = 2", "a") is not first
    assert sys.modules[first.__name__] is first
    assert first.__name__.startswith("op_a_")


def test_example_name_hint_is_made_harmless(cache):
    module = load_module("x = 1", "../../etc/<passwd>\n")
    assert pathlib.Path(module.__file__).parent == cache_directory()


def test_example_debug_is_another_module(cache):
    assert load_module(SOURCE, "t", debug=True).__name__ != load_module(SOURCE, "t").__name__


@needs_compiler
def test_example_debug_checks_bounds(cache):
    text = "from headrace.codegen.modules import compiled\n@compiled\ndef at(a, i):\n    return a[i]\n"
    with pytest.raises(IndexError):
        load_module(text, "at", debug=True).at(np.arange(3), 7)
    load_module(text, "at").at(np.arange(3), 7)  # unchecked: any value, no error


def test_example_user_code_divides_as_python(cache):
    with pytest.raises(ZeroDivisionError):
        load_module(SOURCE, "total").total(np.arange(3), 0)


def test_example_what_imported_modules_of_ours_reach_is_part_of_the_name(cache, monkeypatch):
    before = identity.source_identity.__wrapped__(SOURCE)
    real = identity._described

    def edited(place):
        text_hash, used = real(place)
        return ("edited" if place == ("headrace.memory.atomics", "_pointer") else text_hash), used

    monkeypatch.setattr(identity, "_described", edited)
    # Reached through load_acquire, not named in the source.
    assert identity.source_identity.__wrapped__(SOURCE) != before


def test_example_broken_source_leaves_nothing_behind(cache):
    with pytest.raises(ZeroDivisionError):
        load_module("x = 1 // 0", "broken")
    assert not [name for name in sys.modules if name.startswith("op_broken")]


# -------------------------------------------------------------- permissions


def test_example_directory_is_private(cache):
    load_module("x = 1", "a")
    for each in (cache / "headrace", cache_directory()):
        assert stat.S_IMODE(each.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in cache_directory().glob("op_*.py")} == {0o600}


def test_example_directory_others_could_write_to_is_refused(cache):
    cache_directory().mkdir(parents=True)
    cache_directory().chmod(0o777)
    with pytest.warns(CacheWarning, match="can be written by others"):
        assert load_module("x = 5", "a").x == 5
    assert not list(cache_directory().iterdir())


def test_example_directory_of_another_user_is_refused(cache, monkeypatch):
    cache_directory().mkdir(parents=True)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        module = load_module(SOURCE, "total")
    assert module.total(np.arange(10), 2) == 20
    assert not list(cache_directory().iterdir())


def test_example_planted_link_is_refused(cache, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (cache / "headrace").mkdir(parents=True)
    (cache / "headrace" / "modules").symlink_to(elsewhere)
    with pytest.warns(CacheWarning, match="not a directory"):
        assert load_module("x = 5", "a").x == 5
    assert not list(elsewhere.iterdir())


def test_example_unusable_directory_warns_once(cache):
    cache.write_text("a file, where a directory should be")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first, second = load_module(SOURCE, "total"), load_module("x = 2", "b")
    assert (first.total(np.arange(10), 2), second.x) == (20, 2)
    assert [w.category for w in caught] == [CacheWarning]
    assert "XDG_CACHE_HOME" in str(caught[0].message)


def test_example_tampered_source_is_not_run(cache):
    module = load_module("x = 1", "a")
    path = pathlib.Path(module.__file__)
    path.write_text("x = 666")
    modules._loaded.clear()
    assert load_module("x = 1", "a").x == 1
    assert path.read_text() == "x = 1"


@pytest.mark.slow
@needs_compiler
def test_example_damaged_cache_is_compiled_again_and_healed(cache):
    child()
    (file,) = kept("op_total.total-*")
    content = file.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 0x10]) + content[middle + 1 :]
    for damaged in (b"", content[:middle], flipped):
        file.write_bytes(damaged)
        second = child()
        assert (second["answer"], second["misses"], len(second["warnings"])) == (20, 1, 1)
        healed = file.read_bytes()
        assert hashlib.sha256(healed[32:]).digest() == healed[:32]
    third = child()
    assert (third["answer"], third["hits"], third["warnings"]) == (20, 1, [])


@needs_compiler
def test_example_full_disk_is_one_warning(cache, monkeypatch):
    module = load_module(SOURCE, "total")

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(machine_code, "write_whole", no_space)
    with pytest.warns(CacheWarning, match="No space left") as caught:
        assert module.total(np.arange(10), 2) == 20
    assert len(caught) == 1


@pytest.fixture
def looks_each_time(monkeypatch):
    """How many files there are is looked at whenever one is added."""
    monkeypatch.setattr(machine_code, "_SAVES", 1)


def test_example_old_modules_are_deleted(cache, monkeypatch, looks_each_time):
    monkeypatch.setattr(modules, "_MODULES_KEPT", 3)
    for number in range(6):
        module = load_module(f"x = {number}", "a")
        os.utime(module.__file__, (number, number))
    left = sorted(path.read_text() for path in cache_directory().glob("op_*.py"))
    assert left == ["x = 2", "x = 3", "x = 4", "x = 5"]


def test_example_machine_code_that_was_used_lately_is_kept(tmp_path, looks_each_time):
    for number in range(8):
        (tmp_path / f"{number}.nbc").touch()
        os.utime(tmp_path / f"{number}.nbc", (number, number))
    (tmp_path / "other").touch()
    os.utime(tmp_path / "2.nbc")
    machine_code.prune_sometimes(tmp_path, "*.nbc", 3)
    assert {path.name for path in tmp_path.iterdir()} == {"2.nbc", "6.nbc", "7.nbc", "other"}


def test_example_files_are_counted_in_one_of_many_calls(tmp_path, monkeypatch):
    monkeypatch.setattr(machine_code, "_saved", Counter())
    left = []
    for number in range(2 * machine_code._SAVES):
        (tmp_path / f"{number}.nbc").touch()
        machine_code.prune_sometimes(tmp_path, "*.nbc", 0)
        left.append(len(list(tmp_path.iterdir())))
    assert left == [*range(machine_code._SAVES), *range(machine_code._SAVES)]


def test_example_many_threads_load_one_module(cache):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: id(load_module("x = 1", "a")), range(32)))
    assert len(found) == 1
