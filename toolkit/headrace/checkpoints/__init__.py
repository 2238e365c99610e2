"""What a run needs to go on after its process has died, on disk: for any engine.

====================  ======================================================================
``file_format``       numbers and arrays as the bytes of one file, with a checksum
``folder``            checkpoints of one run: written so that they are there wholly or not at all
``results_log``       the results that have come out up to each of them
``placed_state``      a state in words of an arena, as such contents; ``placed_kernel`` fills its containers again
``content_sum``       whether rows that are read again are those that were read
====================  ======================================================================

An engine says what its state and its frontier are, in numbers and arrays (`Contents`). Nothing here knows what they
mean, and nothing here knows of a run.
"""
