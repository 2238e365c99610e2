"""Checkpoints on disk, from which a run of any engine can go on after its process has died.

====================  ======================================================================
``file_format``       numbers and arrays as the bytes of one file, with a checksum
``folder``            checkpoints of one run, each written completely or not at all
``results_log``       the results that have come out up to each checkpoint
``placed_state``      a state in words of an arena, as such contents; ``placed_kernel`` refills its containers
``content_sum``       a checksum of rows: whether the input that is read again is the same
====================  ======================================================================

An engine gives its state and its frontier as numbers and arrays (`Contents`). Nothing here knows what they
mean, and nothing here knows of a run.
"""
