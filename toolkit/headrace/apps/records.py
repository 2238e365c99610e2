"""The option that the transactional applications share."""

from headrace.apps.app import Option, read_whole

MOST_RECORDS = 1 << 26
"""Beside each other in one table; keys are dense, so that much memory is a few gigabytes."""


def records_option(default: int) -> Option:
    """``--records``, the rows of each table, with the keys from 0 on."""

    def read(text: str) -> int:
        number = read_whole(text, MOST_RECORDS)
        if number is None:
            raise ValueError(f"give a whole number of records from 1 to {MOST_RECORDS}")
        return number

    return Option("records", default, read, f"rows of each table, keys from 0 on (default {default:,})")
