"""What is kept on disk between runs, and why it may be trusted.

Machine code is loaded and executed, so it is read only from a directory that
nobody but the user can write to (`directory`), under a name that says
everything it was made from (`identity`), with a checksum (`machine_code`).
"""

from headrace.caches.directory import CacheWarning, cache_root, check_private, private_directory, warn_once

__all__ = ["CacheWarning", "cache_root", "check_private", "private_directory", "warn_once"]
