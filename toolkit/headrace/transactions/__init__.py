"""Transactions: many threads read and write shared tables, with the outcome of one event after another (TStream)."""
