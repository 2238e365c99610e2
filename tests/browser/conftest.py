"""Which file comes first: the processes of a stage take one file after the other, as `make check-browser` asks for."""

LONGEST = ("test_tour.py", "test_voila.py")
"""One test each, of a minute and more: while one of these is the last, the other process has nothing to do."""


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONGEST)
