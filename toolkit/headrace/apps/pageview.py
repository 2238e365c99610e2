"""pageview: views of pages with the page's metadata at that time (Kallas et al., section 4.1).

Pages are independent of each other, and so are the views of one page: its metadata are replicated, so that several
workers can serve a hot page. An update of a page waits for its views.
"""

import headrace as hr
from headrace.apps.app import TIME, App
from headrace.apps.dealing import Deal
from headrace.reference import synchronization_apps as reference

PARTS = 64


def view(state, e, emit):
    """A view: told with what is known of its page."""
    emit(kind="view", page=e.page, user=e.user, info=state.info.get(e.page, 0))


def update(state, e, emit):
    """An update: tells what was known before."""
    emit(kind="update", page=e.page, info=state.info.get(e.page, 0))
    state.info[e.page] = e.info


def replicate(state, left, right, tags_left, tags_right):
    """Each side gets what it will be asked for; a page that neither will be asked for stays on one side."""
    for page, info in state.info.items():
        is_right = ("view", page) in tags_right or ("update", page) in tags_right
        if is_right:
            right.info[page] = info
        if not is_right or ("view", page) in tags_left:
            left.info[page] = info


def unite(into, other):
    """What both sides know of a page is the same: an update of it would depend on the views of the other side."""
    for page, info in other.info.items():
        into.info[page] = info


PROGRAM = hr.program(
    name="pageview",
    tags={
        hr.tag("view", by="page", parts=PARTS): {"page": "int64", "user": "int64"},
        hr.tag("update", by="page", parts=PARTS): {"page": "int64", "info": "int64"},
    },
    depends=[("update", "update"), ("update", "view")],
    state={"info": hr.map_of("int64", "int64")},
    emits={"kind": "string", "page": "int64", "user": "int64", "info": "int64"},
    update={"view": view, "update": update},
    fork=replicate,
    join=unite,
)


def build(deal: Deal, views: hr.Stream, updates: hr.Stream) -> hr.Stream:
    return PROGRAM.over({"view": deal(views), "update": updates})


APP = App(
    name="pageview",
    help="join views of pages with what is known of the page",
    left=(TIME, ("page", "integer"), ("user", "integer")),
    right=(TIME, ("page", "integer"), ("info", "integer")),
    has_right=True,
    build=build,
    reference=reference.pageview,
    tags=("view",),
)
