"""A simulated CUDA device: a clock, a queue, events, and what makes timings go wrong.

The host's clock moves only by what it does. Launching an operation takes it `latency` seconds; the
device works through its queue in order, on its own. Its start-up can cost: a context at the first
touch, libraries at the first matmul. Another program may take every other slice of its time.

It shows which clock is read, what is waited for, whether a queue is full and whether budgets hold.
It cannot show that torch's events are right, nor how a real driver schedules.
"""

from bisect import bisect_right
from types import SimpleNamespace

import pytest
import torch

from course_utils import hardware
from course_utils.measure import (
    bandwidth,
    clock,
    contention,
    gpu_neighbours,
    launches,
    peaks,
    private,
    queued,
    series,
)

RATE = 1.5e9  # cycles per second of the clock that `_sleep` counts
DEPTH = 1024  # launches that wait in the queue before the next one blocks


class SimulatedCuda:
    """One device and the host that uses it; all times in seconds.

    Its clock ticks in steps of `tick`; every launch and event takes a place in its queue.
    """

    def __init__(self, *, latency=10e-6, event=1e-6, wait=5e-6, start_up=0.0, first=0.0,
                 slice=0.0, tick=0.5e-6):  # fmt: skip
        self.latency, self.event_cost, self.wait_cost = latency, event, wait
        self.start_up, self.first = start_up, first  # paid once, then 0
        self.tick = tick
        self.slice = slice  # of another program, which runs in every other slice; 0 for none
        self.host = self.idle_from = 0.0
        self.ends: list[float] = []
        self.waits = 0

    def work(self, seconds):
        """The host computes, without the device."""
        self.host += seconds

    def launch(self, seconds, *, matmul=False):
        """Queue work that takes the device `seconds` when it has it alone."""
        self.host += self.latency + self.start_up + (self.first if matmul else 0.0)
        self.start_up = 0.0
        self.first = 0.0 if matmul else self.first
        self._take_a_place(seconds)

    def _take_a_place(self, seconds):
        """Queue something; the host waits while the queue is full."""
        if len(self.ends) - bisect_right(self.ends, self.host) >= DEPTH:
            self.host = self.ends[-DEPTH]
        self.idle_from = self._end(max(self.idle_from, self.host), seconds)
        self.ends.append(self.idle_from)

    def _end(self, start, seconds):
        """When work of `seconds` that starts at `start` is done, in our slices alone."""
        if not self.slice:
            return start + seconds
        turn, into = divmod(start, 2 * self.slice)
        if into >= self.slice:  # the other's turn
            turn, into = turn + 1, 0.0
        whole, rest = divmod(into + seconds, self.slice)
        return (turn + whole) * 2 * self.slice + rest

    def wait(self, until=None):
        self.waits += 1
        self.host = max(self.host, self.idle_from if until is None else until) + self.wait_cost

    def keep_busy(self, cycles):
        self.launch(cycles / RATE)

    def event(self, enable_timing=False):
        return Event(self)


class Event:
    def __init__(self, device):
        self.device, self.at = device, None

    def record(self):
        self.device.host += self.device.event_cost
        self.device._take_a_place(0.0)
        self.at = self.device.idle_from

    def query(self):
        return self.device.host >= self.at

    def synchronize(self):
        self.device.wait(self.at)

    def elapsed_time(self, end):
        if self.device.host < end.at:
            raise RuntimeError("both events must be completed before calculating elapsed time")
        ticks = [int(event.at / self.device.tick + 1e-6) for event in (self, end)]
        return (ticks[1] - ticks[0]) * self.device.tick * 1000


class SimulatedNvml:
    """What nvidia-ml-py tells of the device: the programs on it, and who computed of late."""

    class NVMLError(Exception):
        pass

    class NVMLError_NotFound(NVMLError):
        pass

    def __init__(self, programs, active, *, refuses=""):
        self.programs, self.active, self.refuses = programs, active, refuses

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if not uuid.startswith("GPU-"):
            raise self.NVMLError("no such device")
        return uuid

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        if self.refuses == "programs":
            raise self.NVMLError("Not Supported")
        return [SimpleNamespace(pid=pid) for pid in self.programs]

    def nvmlDeviceGetProcessUtilization(self, handle, since):
        if self.refuses == "samples":
            raise self.NVMLError("Not Supported")
        if not self.active:
            raise self.NVMLError_NotFound("Not Found")
        stale = SimpleNamespace(pid=4, smUtil=99, timeStamp=since - 1)
        broken = SimpleNamespace(pid=5, smUtil=4_000_000_000, timeStamp=since + 1)
        found = [SimpleNamespace(pid=pid, smUtil=util, timeStamp=since + 9)
                 for pid, util in self.active.items()]  # fmt: skip
        return [stale, *found, broken]


def install(monkeypatch: pytest.MonkeyPatch, device: SimulatedCuda, nvml=None) -> SimulatedCuda:
    """Let the instruments meet `device` under the names of torch, and `nvml` as the driver."""
    for module in (clock, contention, launches, series, peaks, queued):
        monkeypatch.setattr(module, "perf_counter", lambda: device.host)
    monkeypatch.setattr(hardware, "device_type", lambda name: name)
    monkeypatch.setattr(private, "keep_cuda_busy", device.keep_busy)
    monkeypatch.setattr(torch.cuda, "Event", device.event)
    monkeypatch.setattr(torch.cuda, "synchronize", device.wait)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda _=None: device.wait())
    properties = SimpleNamespace(uuid="1234", L2_cache_size=96 * 2**20)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(gpu_neighbours, "_nvml", lambda: nvml)
    gpu_neighbours._handle.cache_clear()
    queued._seconds_of_cycles.cache_clear()
    return device


__all__ = ["Event", "SimulatedCuda", "SimulatedNvml", "bandwidth", "install"]
