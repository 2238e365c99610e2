"""``python -m headrace``: the command ``headrace``, where it is not on the path."""

import sys

from headrace.cli import main

if __name__ == "__main__":
    sys.exit(main())
