"""``python -m windowkit``."""

import sys

from windowkit.cli import main

sys.exit(main())
