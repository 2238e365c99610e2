"""The program that many tests run: the sum of the values between two barriers."""


def add(state, e, emit):
    state.sum += e.x


def close(state, e, emit):
    emit(sum=state.sum)
    state.sum = 0


def split(state, left, right, tags_left, tags_right):
    if "barrier" in tags_right:
        right.sum = state.sum
    else:
        left.sum = state.sum


def merge(into, other):
    into.sum += other.sum


WINDOW = {
    "tags": {"value": {"x": "int64"}, "barrier": {}},
    "depends": [("barrier", "barrier"), ("barrier", "value")],
    "state": {"sum": "int64"},
    "emits": {"sum": "int64"},
    "update": {"value": add, "barrier": close},
    "fork": split,
    "join": merge,
}
