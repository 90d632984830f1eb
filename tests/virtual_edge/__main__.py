"""Entry of `python3 -m virtual_edge`."""

import sys

from virtual_edge.cli import main

sys.exit(main())
