"""What `import nbdebug` costs beyond `import torch`, as a ratio within one run.

Each measurement is a fresh interpreter; the two kinds alternate, so that a busy machine slows both alike.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

CODE = "import time; t = time.perf_counter(); import {what}; print(time.perf_counter() - t)"


def seconds(what: str) -> float:
    """Time one import in a fresh interpreter."""
    done = subprocess.run([sys.executable, "-c", CODE.format(what=what)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main(rounds: int = 7) -> None:
    """Alternate and print medians."""
    seen: dict[str, list[float]] = {"nbdebug": [], "torch": [], "torch, nbdebug.engine.diagnosis": []}
    for _ in range(rounds):
        for what, times in seen.items():
            times.append(seconds(what))
    middle = {what: statistics.median(times) for what, times in seen.items()}
    for what, value in middle.items():
        print(f"import {what:28} {value:6.3f} s   {value / middle['torch']:5.2f} of import torch")


if __name__ == "__main__":
    main()
