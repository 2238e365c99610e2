"""Files that arrive while a streaming query reads their folder."""

import json
import time


def write_json(folder, number, rows):
    """Write rows, as dicts, to one file; its name appears when it is complete, as Spark's file source wants it."""
    hidden = folder / f".{number}.json"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(folder / f"{number:03d}.json")
    time.sleep(0.01)  # files are taken in the order of their times
