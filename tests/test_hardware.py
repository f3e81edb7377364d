"""The datasheet table and the machine: whole names only, and never an invented number."""

import os
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from course_utils import hardware, measure
from course_utils.hardware import limits, this_machine
from course_utils.measure import gpu_neighbours
from course_utils.measure.gpu_neighbours import UNSEEN

SHEET = files("course_utils.hardware").joinpath("datasheets.toml")
ROWS = tomllib.loads(SHEET.read_text("utf-8"))["device"]
KINDS = ("fp32", "tf32", "fp16", "bf16", "fp8")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_every_row_is_complete_and_sane(row):
    assert set(row) <= {"name", "reported_as", "memory", "bandwidth", "source", "note", "peak"}
    assert row["source"].strip() and row["reported_as"]
    assert 1e9 <= row["memory"] <= 1e12
    assert 50e9 <= row["bandwidth"] <= 1e13
    assert set(row["peak"]) <= set(KINDS) and all(1e12 <= v <= 1e16 for v in row["peak"].values())


def test_names_are_unique():
    names = [name for row in ROWS for name in {row["name"], *row["reported_as"]}]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("A100 80GB SXM", "bf16", 312e12),
        ("H100 SXM", "bf16", 1979e12 / 2),
        ("H100 SXM", "fp32", 67e12),
        ("H100 SXM", "tf32", 494.7e12),
        ("H100 PCIe", "bf16", 756e12),
        ("RTX 3070", "fp32", 20.31e12),
        ("L40S", "fp8", 733e12),
        ("B200", "bf16", 2250e12),
        ("T4", "bf16", None),
        ("V100 SXM", "bf16", None),
        ("A100 80GB SXM", "fp8", None),
    ],
)
def test_promises(name, kind, expected):
    assert hardware.find(name).promised(kind) == expected


def test_the_name_that_the_driver_reports():
    assert hardware.find("NVIDIA H100 80GB HBM3").name == "H100 SXM"
    assert hardware.find("NVIDIA H100 PCIe").name == "H100 PCIe"
    assert hardware.find("NVIDIA L40S").name == "L40S"


@pytest.mark.parametrize(
    "unknown", ["L40", "NVIDIA L40", "NVIDIA RTX A4000", "A4000", "H100", "nvidia h100 pcie",
                "NVIDIA H100 80GB", "RTX 3070 Ti", "Quadro"],
)  # fmt: skip
def test_a_name_that_only_resembles_one_is_unknown(unknown):
    assert hardware.find(unknown) is None


@given(st.text(min_size=1).filter(str.strip))
def test_any_other_text_is_unknown(name):
    known = {name for row in ROWS for name in (row["name"], *row["reported_as"])}
    assert (hardware.find(name) is None) == (name not in known)


@pytest.mark.parametrize("bad", ["", "  ", None, 3])
def test_bad_names_are_refused(bad):
    with pytest.raises(TypeError, match="name must be a text"):
        hardware.find(bad)


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="kind must be one of 'fp32', .*got 'bf61'"):
        hardware.find("H100 SXM").promised("bf61")


def test_rates_are_ordered_as_the_formats_are():
    for device in hardware.devices():
        rates = [device.peak[kind] for kind in ("fp32", "bf16", "fp8") if kind in device.peak]
        assert rates == sorted(rates), device.name


def test_this_machine():
    machine = hardware.machine()
    assert machine.backend == hardware.backend()
    assert 0 < machine.cores <= psutil.cpu_count()
    assert machine.threads == torch.get_num_threads()
    assert machine.memory > 0
    if machine.backend == "cpu":
        assert machine.memory <= psutil.virtual_memory().total
        assert machine.promise is None
    rows = machine.shown().rows
    assert len(rows) == 7 and all(value.startswith("≈ ") for _, value in rows)


def test_a_machine_without_a_promise_reads_as_such(monkeypatch):
    monkeypatch.setattr(this_machine, "find", lambda name: None)
    assert "no datasheet figure" in repr(hardware.machine())
    assert hardware.datasheet_peak() is None
    with pytest.raises(ValueError, match="dtype must be one of"):
        hardware.datasheet_peak("fp32")


def test_container_quota_version_2(tmp_path):
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert limits._cpu_quota(tmp_path) == 1.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert limits._cpu_quota(tmp_path) is None


def test_container_quota_version_1(tmp_path):
    (tmp_path / "cpu.cfs_quota_us").write_text("50000")
    (tmp_path / "cpu.cfs_period_us").write_text("100000")
    assert limits._cpu_quota(tmp_path) == 0.5
    (tmp_path / "cpu.cfs_quota_us").write_text("-1")
    assert limits._cpu_quota(tmp_path) is None
    assert limits._cpu_quota(tmp_path / "absent") is None


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Write a machine's control groups: what the process is told, and the files of the trees."""
    monkeypatch.setattr(limits, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(limits, "_MEMBERSHIP", tmp_path / "membership")

    def written(membership, files):
        if membership is not None:
            (tmp_path / "membership").write_text(membership)
        for name, value in files.items():
            file = tmp_path / "cgroup" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(value)

    return written


V1 = "5:devices:/spawner\n4:memory:/spawner/user-3\n1:cpu,cpuacct:/spawner/user-3\n"
ONE_CORE = {"cpu.cfs_quota_us": "100000", "cpu.cfs_period_us": "100000"}


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        # In a container's root group, and where the process is not told its groups.
        ("0::/\n", {"cpu.max": "100000 100000\n", "memory.max": "1500000000"}),
        (None, {"cpu.max": "100000 100000\n", "memory.max": "1500000000"}),
        # One and two levels down, as under systemd and its user slices.
        ("0::/system.slice/jupyter-ada.service\n",
         {"system.slice/jupyter-ada.service/cpu.max": "100000 100000\n",
          "system.slice/jupyter-ada.service/memory.max": "1500000000",
          "cpu.max": "max 100000\n", "memory.max": "max"}),
        # The tightest limit may be any group's on the way.
        ("0::/user.slice/ada/session\n",
         {"user.slice/cpu.max": "100000 100000\n", "user.slice/ada/memory.max": "1500000000",
          "user.slice/ada/session/cpu.max": "700000 100000\n",
          "user.slice/ada/session/memory.max": "9900000000"}),
        # Version 1 has a tree for each controller.
        (V1, {f"cpu,cpuacct/spawner/user-3/{name}": value for name, value in ONE_CORE.items()}
         | {"memory/spawner/user-3/memory.limit_in_bytes": "1500000000",
            "memory/memory.limit_in_bytes": str(2**63 - 4096)}),
        (V1, {f"cpu/{name}": value for name, value in ONE_CORE.items()}
         | {"memory/spawner/memory.limit_in_bytes": "1500000000"}),
    ],
    ids=["root", "not told", "one level", "any level", "version 1", "version 1, above"],
)  # fmt: skip
def test_limits_at_any_depth_reach_the_machine(groups, monkeypatch, membership, files):
    groups(membership, files)
    if hasattr(limits.os, "sched_getaffinity"):
        monkeypatch.setattr(limits.os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(limits.os, "cpu_count", lambda: 8)
    assert hardware.usable_cores() == 1
    assert hardware.usable_memory() == 1_500_000_000


def test_a_machine_without_limits_is_whole(groups, monkeypatch):
    groups("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "a/memory.max": "max"})
    assert hardware.usable_memory() == psutil.virtual_memory().total
    assert hardware.usable_cores() >= 1 and hardware.usable_cores() % 1 == 0


@pytest.mark.skipif(
    not os.access("/sys/fs/cgroup/cpu", os.W_OK), reason="limits cannot be set here"
)
def test_a_real_limit_one_level_down_is_seen():
    """Set on a group of its own, as root, with control groups of version 1."""
    made = [Path(f"/sys/fs/cgroup/{tree}/course-test-{os.getpid()}") for tree in ("cpu", "memory")]
    for folder in made:
        folder.mkdir()
    try:
        (made[0] / "cpu.cfs_quota_us").write_text("50000")
        (made[1] / "memory.limit_in_bytes").write_text(str(1500 * 2**20))
        program = (
            "import os, sys\n"
            "for f in sys.argv[1:]: open(f + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
            "from course_utils import hardware\n"
            "print(hardware.usable_cores(), hardware.usable_memory())\n"
        )
        command = [sys.executable, "-c", program, *map(str, made)]
        said = subprocess.check_output(command, text=True)
    finally:
        for folder in made:
            folder.rmdir()
    assert said.split() == ["0.5", str(1500 * 2**20)]


def test_an_accelerator_that_cannot_compute_is_left_alone(monkeypatch):
    """As a V100 is with a PyTorch for CUDA 13, which carries no kernels for it."""
    why = {"fp32": "no kernel image is available", "bf16": "too", "fp16": "too"}
    monkeypatch.setattr(this_machine, "_accelerator", lambda: "cuda")
    monkeypatch.setattr(this_machine, "refusals", lambda kind: why)
    assert hardware.backend() == "cpu" and hardware.device_type(None) == "cpu"
    card = hardware.machine()
    assert "(cpu); cuda cannot compute with this PyTorch: no kernel image" in repr(card)
    assert [fact for fact, _ in card.shown().rows] == [
        fact for fact, _ in hardware.Machine("cpu", "x", 1, 1, 1, None).shown().rows
    ]
    monkeypatch.setattr(this_machine, "refusals", lambda kind: {"bf16": "not in this one"})
    assert hardware.backend() == "cuda"


def test_another_device_than_the_current_one_is_refused(monkeypatch):
    """A time of cuda:0 under the name of cuda:1 would be wrong in silence."""
    monkeypatch.setattr(this_machine, "backend", lambda: "cuda")
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 1)
    assert hardware.device_type("cuda") == hardware.device_type("cuda:1") == "cuda"
    assert hardware.device_type(torch.device("cuda", 1)) == "cuda"
    for other in ("cuda:0", torch.device("cuda", 2), "cuda:x"):
        with pytest.raises(ValueError, match="device must be the current one, cuda:1, got 'cuda:"):
            hardware.device_type(other)


@pytest.mark.parametrize("device", hardware.devices(), ids=lambda device: device.name)
def test_a_datasheet_s_figures_print_in_half_a_line(device):
    """The source, which may be long, stays in the result."""
    peak = measure.Peak(device.peak["fp32"], "datasheet", device.source, "fp32")
    memory = measure.Bandwidth(device.bandwidth, "datasheet", device.source)
    assert len(repr(peak)) < 50 and len(repr(memory)) < 50
    assert "datasheet" in repr(peak) and peak.source == device.source


def test_dtype_names():
    assert hardware.dtype_name(torch.bfloat16) == "bf16"
    with pytest.raises(ValueError, match="dtype must be one of torch.float32"):
        hardware.dtype_name(torch.int8)


def test_a_processor_alone_has_no_promise(monkeypatch):
    """Apple's figures are those of the GPU, which only the mps backend uses."""
    monkeypatch.setattr(this_machine, "_cpu_name", lambda: "Apple M1")
    monkeypatch.setattr(this_machine, "backend", lambda: "cpu")
    assert hardware.machine().promise is None
    monkeypatch.setattr(this_machine, "backend", lambda: "mps")
    assert hardware.machine().promise.name == "Apple M1"


@pytest.mark.parametrize(
    ("device", "setting", "expected"),
    [("A100 80GB SXM", "ieee", 19.5e12), ("A100 80GB SXM", "tf32", 156e12), ("T4", "tf32", 8.1e12)],
)
def test_the_promise_follows_the_tf32_setting(monkeypatch, device, setting, expected):
    monkeypatch.setattr(this_machine, "promise", lambda: hardware.find(device))
    monkeypatch.setattr(this_machine, "runs_as_tf32", lambda: setting == "tf32")
    assert hardware.datasheet_peak(torch.float32) == expected


def test_the_tf32_setting_is_readable_however_it_was_set():
    """Needs torch.backends.cuda.matmul.fp32_precision, or the older allow_tf32."""
    before = torch.backends.cuda.matmul.fp32_precision
    try:
        torch.backends.cuda.matmul.fp32_precision = "tf32"
        assert hardware.runs_as_tf32()
        torch.backends.cuda.matmul.fp32_precision = "ieee"
        assert not hardware.runs_as_tf32()
    finally:
        torch.backends.cuda.matmul.fp32_precision = before


def test_devices_by_name_object_or_default():
    assert hardware.device_type(None) == hardware.backend()
    assert hardware.device_type("cpu") == hardware.device_type(torch.device("cpu")) == "cpu"
    assert hardware.device_type("cpu:0") == "cpu"
    for bad in ("gpu", "tpu:1", 3, ""):
        with pytest.raises((TypeError, ValueError), match="device must be"):
            hardware.device_type(bad)


def test_a_quota_limits_pytorch_s_threads(monkeypatch):
    before = torch.get_num_threads()
    monkeypatch.setattr(this_machine, "usable_cores", lambda: 1.5)
    try:
        assert hardware.limit_threads() == 1 == torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


def files(monkeypatch, tmp_path, *, cpuinfo="", **others):
    """A pretended /proc/cpuinfo and /sys/devices/system/cpu of two processors."""
    from course_utils.hardware import napkin

    (tmp_path / "cpuinfo").write_text(cpuinfo)
    for name, words in others.items():
        for cpu, text in enumerate(words):
            file = tmp_path / f"cpu{cpu}" / name.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    monkeypatch.setattr(napkin, "CPUS", tmp_path)
    monkeypatch.setattr(napkin, "CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(napkin, "usable_cores", lambda: 2.0)
    monkeypatch.setattr(napkin, "_usable", lambda: [0, 1])
    monkeypatch.setattr(napkin.platform, "system", lambda: "Linux")
    monkeypatch.setattr(napkin.platform, "machine", lambda: "x86_64")
    return {one.name.split(" (")[0]: one for one in hardware.cpu_napkin().factors}


def test_the_napkin_of_a_processor_is_read(monkeypatch, tmp_path):
    found = files(
        monkeypatch,
        tmp_path,
        cpuinfo="cpu MHz\t\t: 2600.000\nflags\t\t: fpu sse2 avx2 avx512f",
        topology__thread_siblings_list=["0", "1"],
    )
    assert (found["physical cores"].value, found["clock"].value, found["lanes"].value) == (
        2,
        2.6e9,
        16,
    )
    assert [one.origin for one in found.values()][:4] == ["read", "read", "assumed", "read"]
    assert hardware.cpu_napkin().value == 2 * 2.6e9 * 2 * 16 * 2


def test_two_hardware_threads_are_one_core_and_the_highest_clock_counts(monkeypatch, tmp_path):
    found = files(
        monkeypatch,
        tmp_path,
        cpuinfo="cpu MHz\t\t: 1200.000\nflags\t\t: avx2 sse2",
        topology__thread_siblings_list=["0,1", "0,1"],
        cpufreq__cpuinfo_max_freq=["4200000", "4200000"],
    )
    assert (found["physical cores"].value, found["clock"].value, found["lanes"].value) == (
        1,
        4.2e9,
        8,
    )


def test_what_a_processor_does_not_tell_is_assumed_or_unknown(monkeypatch, tmp_path):
    found = files(monkeypatch, tmp_path)
    assert found["physical cores"].origin.startswith("assumed")
    assert found["clock"].origin == "assumed" and found["lanes"].value is None
    assert hardware.cpu_napkin().value is None
    assert "≈ unknown | ≈ unknown" in repr(hardware.cpu_napkin())


def test_looking_a_datasheet_up_leaves_the_threads_alone():
    before = torch.get_num_threads()
    torch.set_num_threads(7)
    try:
        hardware.datasheet_peak(), hardware.promise()
        measure.reference_bandwidth(budget=0.05)
        assert torch.get_num_threads() == 7
        hardware.machine()  # the card, which says so
        assert torch.get_num_threads() == min(7, max(1, int(hardware.usable_cores())))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(("device", "note"), [("cpu", ""), ("mps", UNSEEN), ("xpu", UNSEEN)])
def test_other_programs_are_unseen_where_no_driver_is_asked(device, note):
    with gpu_neighbours.watch(device) as others:
        pass
    assert others() == ("", note)
