"""Which file comes first: the processes of a stage take one file after the other, as `make check-browser` asks for.

A process takes the next file while it still has two tests to do. So files of one or two long tests come first, then the others,
the longest first: while one file is the last, the other processes have nothing to do.
"""

FIRST = ("tour", "voila", "dashboard", "layout_engines", "overload", "layout", "plan", "connection", "still", "saved_page")


def pytest_collection_modifyitems(items):
    order = {f"test_{name}.py": place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))
