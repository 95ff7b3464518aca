"""``python -m anyorder``: the command without its script on the path."""

from __future__ import annotations

import sys

from anyorder.cli import main

sys.exit(main())
