"""``python -m windowkit``."""

import sys

from windowkit.cli import main

if __name__ == "__main__":
    sys.exit(main())
