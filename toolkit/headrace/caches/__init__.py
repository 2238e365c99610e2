"""Machine code kept on disk between runs, and why it may be trusted.

Machine code is loaded and executed. So it is read only from a directory to which
only the user can write, under a name that is a hash of everything it was made from,
and with a checksum.

================  =================================================================
``directory``     a private directory of the user for code that is executed from disk
``identity``      a hash of everything a compiled function was made from
``machine_code``  a file for each function, signature and identity
================  =================================================================
"""

from headrace.caches.directory import CacheWarning, cache_root, check_private, private_directory, warn_once

__all__ = ["CacheWarning", "cache_root", "check_private", "private_directory", "warn_once"]
