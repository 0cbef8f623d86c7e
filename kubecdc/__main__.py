"""`python -m kubecdc` is the command line."""

from __future__ import annotations

import sys

from kubecdc.cli import main

sys.exit(main())
