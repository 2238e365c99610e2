"""What is kept on disk between runs, and why it may be trusted.

Machine code is loaded and executed, so it is read only from a directory that
nobody but the user can write to, under a name that says everything it was made
from, with a checksum.

================  =================================================================
``directory``     a directory of the user's own for what is executed from disk
``identity``      what a compiled function was made from, as a hash
``machine_code``  a file for each function, signature and identity
================  =================================================================
"""

from headrace.caches.directory import CacheWarning, cache_root, check_private, private_directory, warn_once

__all__ = ["CacheWarning", "cache_root", "check_private", "private_directory", "warn_once"]
