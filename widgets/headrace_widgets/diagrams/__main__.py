"""Write each drawing's steps as one SVG file: ``python -m headrace_widgets.diagrams notebooks/images``."""

import sys
from pathlib import Path

from headrace_widgets.diagrams import ALL

if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
    sys.exit("give the folder to write to, such as notebooks/images")
for name, draw in ALL.items():
    print(draw().save(Path(sys.argv[1]) / f"{name}.svg"))
