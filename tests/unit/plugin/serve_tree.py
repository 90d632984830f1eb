"""`rknpu-plugin` for a board in a directory, where plain files count as device nodes."""

from __future__ import annotations

import functools
import os
import sys

from rknpu_plugin.memory import import_without_openssl

# As the command does, before anything else loads the libraries.
import_without_openssl()

from rknpu_plugin import handover, plugin  # noqa: E402
from rknpu_plugin.commands import main  # noqa: E402
from unit.plugin.board_tree import is_node  # noqa: E402

if __name__ == "__main__":
    handover.START_SECONDS = float(os.environ.get("TEST_START_SECONDS", handover.START_SECONDS))
    # Time for a kubelet to change its mind, which the tests' kubelet never takes.
    handover.DRAIN_SECONDS = 0.2
    plugin.Plugin = functools.partial(plugin.Plugin, char_device=is_node)  # type: ignore[misc]
    sys.exit(main())
