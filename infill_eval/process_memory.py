"""What this process holds and has held at most, by the kernel's count, which includes what torch allocates.

``ru_maxrss`` would not do for a peak: Linux hands it down from the process that started this one. Elsewhere than on
Linux there is nothing to read.
"""

from __future__ import annotations

from pathlib import Path

STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")


def held() -> int:
    """Bytes held now."""
    return _read("VmRSS")


def peak() -> int:
    """Bytes held at most, since the start or the last ``reset_peak``."""
    return _read("VmHWM")


def reset_peak() -> bool:
    """Let the peak begin anew at what is held now; False where the kernel does not let it."""
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return True


def _read(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024
