"""Measures the kept figures anew: ``python -m headrace_bench.experiments small q2 q3``, on a quiet machine."""

import sys

from headrace_bench import experiment
from headrace_bench.experiments import NAMES
from headrace_bench.experiments.kept import keep, other_work
from headrace_bench.machine import look

size, *chosen = sys.argv[1:] or [""]
if size not in ("tiny", "small", "full") or not set(chosen) <= set(NAMES):
    sys.exit(f"give a size (tiny, small, full), then which of {', '.join(NAMES)}, if not all")
for name in chosen or NAMES:
    load, seen = other_work(), look()
    print(keep(experiment(name, full=size == "full", tiny=size == "tiny"), size, load, seen=seen._asdict()), flush=True)
