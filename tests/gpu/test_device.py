"""The instruments against the device itself: run by `make gpu`, on a machine that has one.

Each test prints the figures that it judged; `make gpu` keeps them. What only CUDA has is skipped
elsewhere, with the reason.
"""

import subprocess
import sys
from statistics import median

import pytest
import torch

from course_utils import hardware, measure

KIND = hardware.backend()
MODULE = None if KIND == "cpu" else torch.get_device_module(KIND)
pytestmark = pytest.mark.skipif(KIND == "cpu", reason="there is no accelerator that computes here")
on_cuda = pytest.mark.skipif(KIND != "cuda", reason="only CUDA has it")
keeps_statistics = pytest.mark.skipif(
    not hasattr(MODULE, "reset_peak_memory_stats"), reason="its allocator keeps no statistics"
)


def product(n, dtype=torch.float32):
    x, w = (torch.randn(n, n, device=KIND).to(dtype) for _ in range(2))
    return lambda: x @ w


def test_the_device_starts_before_it_is_timed():
    """In a process of its own: the first timing of a product is not the start-up's."""
    program = (
        "import torch\n"
        "from course_utils import hardware, measure\n"
        "from time import perf_counter\n"
        "began = perf_counter(); kind = hardware.backend(); started = perf_counter() - began\n"
        "x = torch.randn(512, 512, device=kind)\n"
        "took = measure.time(lambda: x @ x, budget=0.5)\n"
        "print(f'start-up {started:.2f} s, then {took}')\n"
        "assert took.warm and len(took.samples) >= 5\n"
    )
    print(subprocess.check_output([sys.executable, "-c", program], text=True))


@on_cuda
@pytest.mark.parametrize("n", [64, 256, 1024, 4096])
def test_times_agree_with_do_bench(n):
    """triton's median, whose queue is kept full by clearing the cache before each call."""
    triton = pytest.importorskip("triton.testing")
    call = product(n)
    ours = measure.time(call, budget=1.0)
    try:
        theirs = triton.do_bench(call, return_mode="median") / 1e3
    except Exception as error:  # it compiles a little C at its first use
        pytest.skip(f"triton cannot start here: {type(error).__name__}")
    print(f"n = {n}: {ours}; do_bench {theirs * 1e6:.2f} µs")
    assert ours.clock == "device"
    assert theirs == pytest.approx(ours.median, rel=0.25, abs=5e-6)


@on_cuda
def test_a_short_kernel_is_not_charged_its_launch():
    x = torch.ones(1, device=KIND)
    found = measure.time(lambda: x.add_(1), budget=0.5)
    print(found)
    assert found.clock == "device" and found.launch_bound and found.value < found.per_call


@on_cuda
def test_what_waits_itself_is_timed_until_it_is_done():
    x = torch.ones(1, device=KIND)
    found = measure.time(lambda: x.add_(1).item(), budget=0.5)
    print(found)
    assert found.clock == "wall" and found.value > 5e-6


@on_cuda
def test_a_backlog_lasts_as_long_as_it_is_asked_to():
    from course_utils.measure import private, queued

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    private.keep_cuda_busy(queued._cycles(0.01))
    end.record()
    end.synchronize()
    lasted = start.elapsed_time(end) / 1e3
    print(f"a backlog of 10 ms lasted {lasted * 1e3:.2f} ms")
    assert lasted == pytest.approx(0.01, rel=0.2)


@on_cuda
def test_another_program_on_the_device_is_seen():
    from course_utils.measure import gpu_neighbours

    if not gpu_neighbours.seen():
        pytest.skip("the driver cannot be asked: NVML does not answer")
    call = product(2048)
    alone = measure.time(call, budget=1.0)
    other = (
        "import torch\nx = torch.randn(4096, 4096, device='cuda')\nprint('ready', flush=True)\n"
        "from time import time\nend = time() + 30\n"
        "while time() < end: x @ x; torch.cuda.synchronize()\n"
    )
    with subprocess.Popen([sys.executable, "-c", other], stdout=subprocess.PIPE) as process:
        try:
            process.stdout.readline()
            measure.time(call, budget=2.0)  # for the driver to notice
            with gpu_neighbours.watch(KIND) as told:
                shared = measure.time(call, budget=2.0)
            doubt, note = told()
        finally:
            process.kill()
    print(f"alone {alone}\nshared {shared}\n{doubt or note}")
    if note:
        pytest.skip(note)
    assert doubt == "another program computes on this GPU"


@keeps_statistics
def test_the_tracker_and_the_allocator_agree():
    """Storages, in blocks of 512 bytes and with the workspace of the matmuls."""
    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).to(KIND)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(256, 512, device=KIND)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    found = measure.memory(step)
    step()
    MODULE.synchronize()
    MODULE.reset_peak_memory_stats()
    before = MODULE.memory_allocated()
    step()
    MODULE.synchronize()
    peak = MODULE.max_memory_allocated()
    reserved = MODULE.memory_reserved()
    print(f"{found}\nallocator: {before:,} before, {peak:,} at its peak, {reserved:,} reserved")
    parts = sum(p.numel() * 4 for p in model.parameters())
    assert found.parameters == found.largest["gradients"] == parts
    assert found.largest["optimizer"] >= 2 * parts
    assert found.peak - found.timeline[0].total == pytest.approx(peak - before, rel=0.05, abs=8192)
    assert found.peak <= peak <= reserved  # others of this process's tensors are held too


@keeps_statistics
def test_a_tensor_takes_whole_blocks():
    MODULE.synchronize()
    before = MODULE.memory_allocated()
    one = torch.ones(1, device=KIND)
    block = MODULE.memory_allocated() - before
    print(f"4 bytes take {block} bytes")
    assert block >= one.nbytes and block % 4 == 0


@pytest.mark.parametrize("name", hardware.DTYPES)
def test_the_peak_is_at_most_the_datasheet_s(name):
    if name in hardware.refusals(KIND):
        pytest.skip(hardware.refusals(KIND)[name])
    found = measure.measured_peak(KIND, hardware.DTYPES[name], budget=3.0)
    promised = hardware.datasheet_peak(hardware.DTYPES[name])
    print(f"{name}: {found}; datasheet {promised and f'{promised:.3g}'}")
    assert found.value > 0
    if promised:
        assert 0.3 * promised < found.value < 1.05 * promised


def test_the_bandwidth_is_at_most_the_datasheet_s():
    found = measure.measured_bandwidth(KIND, budget=2.0)
    sheet = hardware.machine().promise
    print(f"{found}; datasheet {sheet and f'{sheet.bandwidth:.3g}'}")
    assert found.value > 0
    if sheet:
        assert 0.5 * sheet.bandwidth < found.value < 1.05 * sheet.bandwidth


def test_copies_from_the_processor_s_memory():
    found = measure.host_copies()
    print(found)
    assert found.pageable.value > 1e8
    if KIND == "cuda":  # PCIe 6 delivers 128 GB/s, the link of a Grace Hopper 450
        assert found.pageable.value < 1.1 * found.pinned.value < 500e9


@on_cuda
def test_what_one_call_launches():
    """One matmul is one kernel, or two where its sum is split; its time is that of the clock."""
    call = product(4096)
    found, took = measure.kernels(call), measure.time(call)
    print(found, took, sep="\n")
    assert 1 <= found.launched <= 2 and found.operations == 1
    assert found.busy == pytest.approx(took.value, rel=0.15) and found.gaps < 0.1
    x = torch.ones(1, device=KIND)
    small = measure.kernels(lambda: [x.add_(1) for _ in range(50)])
    print(small)
    assert small.launched == small.operations == 50 and small.gaps > 0.3
    assert "add" in small.longest[0][0].lower()


@on_cuda
@pytest.mark.skipif(
    KIND == "cuda" and torch.cuda.get_device_capability() < (8, 0), reason="it has no TF32"
)
def test_tf32_is_faster_and_coarser():
    x, w = (torch.randn(4096, 4096, device=KIND) for _ in range(2))
    before, exact = torch.backends.cuda.matmul.fp32_precision, x.double() @ w.double()
    rates, errors = {}, {}
    try:
        for setting in ("ieee", "tf32"):
            torch.backends.cuda.matmul.fp32_precision = setting
            rates[setting] = 2 * 4096**3 / measure.time(lambda: x @ w, budget=1.0).value
            errors[setting] = ((x @ w) - exact).abs().max().item()
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    print(*(f"{k}: {rates[k]:.3g} FLOP/s, error {errors[k]:.2g}" for k in rates), sep="; ")
    assert rates["tf32"] > 1.5 * rates["ieee"] and errors["tf32"] > 10 * errors["ieee"]


@on_cuda
@pytest.mark.skipif(
    KIND == "cuda" and torch.cuda.get_device_capability() < (8, 9), reason="it has no units for fp8"
)
def test_fp8_products_are_twice_as_fast_as_bf16():
    n, one = 8192, torch.tensor(1.0, device=KIND)
    x, w = (torch.randn(n, n, device=KIND).to(torch.float8_e4m3fn) for _ in range(2))
    fp8 = measure.time(
        lambda: torch._scaled_mm(
            x, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True
        ),
        budget=1.0,
    )
    bf16 = measure.time(product(n, torch.bfloat16), budget=1.0)
    print(f"fp8 {2 * n**3 / fp8.value:.3g}, bf16 {2 * n**3 / bf16.value:.3g} FLOP/s")
    assert 1.2 < bf16.value / fp8.value < 2.5


def test_the_first_sweep_reaches_more_than_one_point():
    sizes = (64, 256, 1024)
    series = {name: lambda n, d=dtype: product(n, d) for name, dtype in hardware.DTYPES.items()
              if name not in hardware.refusals(KIND)}  # fmt: skip
    sweep = measure.sweep(series, sizes, budget=4.0, work=lambda n: n**3)
    list(sweep)
    print(sweep.as_table("n"))
    assert all(len(sweep.reached(name)) == len(sizes) for name in series)
    assert all(median(t.samples) > 0 for name in series for t in sweep.reached(name).values())
