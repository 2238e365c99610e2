"""Models of what a JavaScript module on the page shows: they receive what the kernel sends, whenever the module is loaded.

anywidget's own model makes the kernel's messages wait until its module is loaded. If that takes more than two seconds, as on
a page that is busy, it refuses them, and all that come later, too: the page would show its first state for ever, or nothing.
So a model of ipywidgets itself, which waits for no module, has everything that changes. anywidget's has the module and the
name of that model, and is sent nothing after it was made.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import anywidget
import ipywidgets as w
import traitlets as t

_HERE = Path(__file__).parent


class ModuleView(anywidget.AnyWidget):
    """What is put on the page: a module and the model that it shows. It is closed together with its model."""

    shows = t.Instance(w.Widget).tag(sync=True, **w.widget_serialization)

    def close(self) -> None:
        """Remove both from the page."""
        super().close()
        self.shows.close()


class PageModel(w.Widget):
    """What the kernel and a module tell each other: traits in both directions, and messages of their own.

    A subclass names its view, whose module ends with ``export default { render: showing(render) }``.

    Parameters
    ----------
    classes : tuple of str
        Of the view's element; a class that is added later may not arrive.
    traits
        What the model has at first.

    Attributes
    ----------
    view : ModuleView
        To be put on the page.
    """

    _view: ClassVar[type[ModuleView]]

    def __init__(self, classes: tuple[str, ...] = (), **traits: Any):
        super().__init__(**traits)
        self.view = self._view(shows=self, _dom_classes=classes)


def module(*names: str) -> str:
    """Return the module that consists of these files, and of what all modules begin with."""
    return "\n".join((_HERE / name).read_text(encoding="utf-8") for name in ("page_model.js", *names))
