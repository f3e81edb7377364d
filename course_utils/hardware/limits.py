"""What this process may use of the machine: its affinity, and the limits of its containers.

A container, a systemd unit or a JupyterHub spawner puts a process into a control group with limits
of its own, at any depth: each group on the way up to the root may set one, and the tightest holds.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")


def usable_cores() -> float:
    """Cores this process may use: its affinity, cut to the tightest CPU quota around it."""
    if hasattr(os, "sched_getaffinity"):
        allowed = len(os.sched_getaffinity(0))
    else:
        allowed = os.cpu_count() or 1
    quotas = [quota for folder in _groups("cpu") if (quota := _cpu_quota(folder))]
    return min([allowed, *quotas])


def usable_memory() -> int:
    """Bytes of main memory this process may use: the machine's, cut to the tightest limit."""
    total = psutil.virtual_memory().total
    files = [folder / name for folder in _groups("memory")
             for name in ("memory.max", "memory.limit_in_bytes")]  # fmt: skip
    limits = [limit for file in files if (limit := _read_number(file))]
    return int(min([total, *limits]))


def _groups(controller: str) -> Iterator[Path]:
    """The folders of the control groups this process is in, with every one above, as far as seen.

    Version 2 has one tree for all controllers, version 1 one for each. Inside a container the tree
    may begin at the process's own group, under another name than the one it is told.
    """
    for root, group in _memberships(controller):
        folder = root / group.strip("/")
        yield from (above for above in (folder, *folder.parents) if above.is_relative_to(root))


def _memberships(controller: str) -> Iterator[tuple[Path, str]]:
    """For each tree that may limit `controller`: where it is mounted, and this process's group."""
    try:
        lines = _MEMBERSHIP.read_text().splitlines()
    except OSError:
        lines = []
    told = [line.split(":", 2)[1:] for line in lines if line.count(":") >= 2]
    for controllers, group in told or [["", "/"], [controller, "/"]]:
        if controllers == "":
            yield _CGROUP, group
        elif controller in controllers.split(","):
            for name in dict.fromkeys((controllers, controller)):  # "cpu,cpuacct", linked as "cpu"
                yield _CGROUP / name, group


def _cpu_quota(folder: Path) -> float | None:
    """Cores a cgroup allows (version 2: cpu.max; version 1: cfs quota over period), or None."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
    except (OSError, ValueError):
        quota = _read_number(folder / "cpu.cfs_quota_us")
        period = _read_number(folder / "cpu.cfs_period_us")
    if quota in (None, "max") or not period:
        return None
    return float(quota) / float(period)


def _read_number(path: Path) -> float | None:
    try:
        value = float(path.read_text())
    except (OSError, ValueError):  # absent, or "max": no limit is set
        return None
    return value if value > 0 else None
