"""What is known against the locked packages of Python, as far as their database can be reached.

`make audit`, which the release workflow runs, fails where it cannot. CI runs this for each commit: it fails
for advisories alone, and says what has not been checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

LOCKS = Path(__file__).parent / "locks"


def audited(lock: Path) -> str:
    """Return what pip-audit writes of a lock, which is nothing if it cannot ask anybody."""
    options = ["--progress-spinner=off", "--disable-pip", "--require-hashes", "--format=json"]
    command = [sys.executable, "-m", "pip_audit", *options, f"--requirement={lock}"]
    # Its last words, "no known vulnerabilities", are also those for packages that it did not find.
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def told(reports: dict[str, str]) -> tuple[list[str], bool]:
    """Return lines that say what the reports of locks come to, and whether there are advisories."""
    lines, is_bad = [], False
    for lock, report in reports.items():
        packages = json.loads(report)["dependencies"] if report else []
        checked = [package for package in packages if "vulns" in package]
        for package in checked:
            for advisory in package["vulns"]:
                lines.append(f"error: {lock}: {package['name']} {package['version']}: {advisory['id']}")
                is_bad = True
        lines.append(f"{lock}: {len(checked)} packages checked")
        if not report:
            lines.append(f"warning: advisories for {lock} have NOT been checked: no database can be reached")
        elif len(checked) < len(packages):
            left = len(packages) - len(checked)
            lines.append(f"warning: advisories for {left} packages of {lock} have NOT been checked")
    return lines, is_bad


if __name__ == "__main__":
    LINES, IS_BAD = told({lock.name: audited(lock) for lock in sorted(LOCKS.glob("*.txt"))})
    print("\n".join(LINES))
    sys.exit(IS_BAD)
