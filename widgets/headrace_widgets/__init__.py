"""The dashboard room: panels that watch a run and steer it from a notebook.

Empty until the dashboard lands. Until then a run is watched through ``run.metrics()`` and
``run.history``, and steered through ``run.reconfigure(...)``.
"""
