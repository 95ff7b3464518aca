"""``python -m infill_eval``: one command a row of a table."""

from __future__ import annotations

import sys

from infill_eval.cli import main

sys.exit(main())
