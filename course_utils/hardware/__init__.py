"""This machine, the datasheets of known accelerators, and recorded runs of other machines."""

from course_utils.hardware.datasheets import Device, devices, find
from course_utils.hardware.limits import usable_cores, usable_memory
from course_utils.hardware.napkin import Factor, Napkin, cpu_napkin
from course_utils.hardware.recordings import QUANTITIES, Run, elsewhere, read_run, recorded, runs
from course_utils.hardware.this_machine import (
    DTYPES,
    Machine,
    backend,
    datasheet_peak,
    device_type,
    dtype_name,
    limit_threads,
    machine,
    promise,
    runs_as_tf32,
)
from course_utils.hardware.trial import refusals

__all__ = [
    "DTYPES",
    "QUANTITIES",
    "Device",
    "Factor",
    "Machine",
    "Napkin",
    "Run",
    "backend",
    "cpu_napkin",
    "datasheet_peak",
    "device_type",
    "devices",
    "dtype_name",
    "elsewhere",
    "find",
    "limit_threads",
    "machine",
    "promise",
    "read_run",
    "recorded",
    "refusals",
    "runs",
    "runs_as_tf32",
    "usable_cores",
    "usable_memory",
]
