"""Windows, joins and user-defined operators on the command line."""

from __future__ import annotations

from headrace.apps.engines.engine import Engine
from headrace.apps.flag import Flag


class Elastic(Engine):
    """The elastic engine; its flags are among those of how any application is run."""

    name = "elastic"
    runs, title = "windows and joins", "windows and joins"
    flags = (
        Flag("mode", "virtual or plain shared-nothing (default vsn)", choices=("vsn", "sn"), place="running"),
        Flag("gate", "tuple buffer (default log)", choices=("log", "scalegate"), place="running"),
    )

    @property
    def compares(self) -> bool:
        return self.app.has_right is True or self.app.is_self_join
