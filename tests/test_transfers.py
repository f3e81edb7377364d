"""Copies to an accelerator, and what one call launches: on stand-ins, and on this processor."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.autograd import DeviceType

from course_utils import hardware, measure
from course_utils.measure import launches, transfers
from tests.simulated_cuda import SimulatedCuda, SimulatedNvml, install

ALONE = SimulatedNvml({os.getpid()}, {os.getpid(): 60})
PINNED, PAGEABLE, NBYTES = 25e9, 6e9, 2**26


# Copies


@pytest.fixture
def link(monkeypatch):
    """A device to which copies take their time: from pageable memory the call itself waits."""

    def copy(kind, nbytes, device):
        if kind == "pinned":
            return lambda: card.launch(nbytes / PINNED)
        return lambda: (card.launch(nbytes / PAGEABLE), card.wait())

    card = install(monkeypatch, SimulatedCuda(), ALONE)
    monkeypatch.setattr(transfers, "_copy", copy)
    return card


def test_both_rates_are_found_on_a_simulated_device(link):
    found = measure.host_copies(device="cuda")
    assert found.pinned.value == pytest.approx(PINNED, rel=0.02)
    assert found.pageable.value == pytest.approx(PAGEABLE, rel=0.02)
    assert found.trusted and found.nbytes == NBYTES and link.host < 1.2
    assert (found.pinned / found.pageable).value == pytest.approx(PINNED / PAGEABLE, rel=0.04)
    lines = repr(found).splitlines()[2:]
    assert [line.split(" | ≈ ")[0] for line in lines] == ["pageable memory", "pinned memory  "]
    assert all(line.endswith(" GB/s") for line in lines)


def test_short_copies_are_not_charged_their_launch(link):
    found = measure.host_copies(2**16, device="cuda")
    assert found.pinned.value == pytest.approx(PINNED, rel=0.05)


def test_another_program_on_the_device_is_a_doubt(monkeypatch, link):
    busy = SimulatedNvml({os.getpid(), 7}, {os.getpid(): 40, 7: 40})
    install(monkeypatch, link, busy)
    found = measure.host_copies(device="cuda")
    assert "another program computes on this GPU" in found.doubt
    assert repr(found).count("unsure: another program") == 2


def test_without_an_accelerator_nothing_is_copied_and_a_row_says_so(monkeypatch):
    monkeypatch.setattr(transfers, "_copy", lambda *_: pytest.fail("this copies"))
    found = measure.host_copies(device="cpu")
    assert (found.pageable, found.pinned, found.doubt) == (None, None, "")
    lines = repr(found).splitlines()[2:]
    assert len(lines) == 2 and all(line.endswith(f"| ≈ {transfers.NONE}") for line in lines)
    assert "no accelerator here" in found._repr_html_()


def test_the_rows_are_the_same_on_every_machine(link):
    there, here = measure.host_copies(device="cuda"), measure.host_copies(device="cpu")
    first = [[row[0] for row in found.shown().rows] for found in (there, here)]
    assert first[0] == first[1] and there.shown().columns == here.shown().columns


def test_what_is_copied_arrives():
    """Here a copy stays in the processor's memory, and pinned memory cannot be had."""
    copy = transfers._copy("pageable", 1000, "cpu")
    target = copy()
    assert target.sum().item() == 1000 and target.nbytes == 1000
    if not torch.accelerator.is_available():
        assert transfers._copy("pinned", 1000, "cpu") is None


@pytest.mark.parametrize(
    ("given", "words"),
    [({"nbytes": 0}, "nbytes must be"), ({"nbytes": 2.5}, "nbytes must be"),
     ({"budget": 0}, "budget must be"), ({"device": "abacus"}, "device must be")],
)  # fmt: skip
def test_copies_that_make_no_sense(given, words):
    with pytest.raises(ValueError, match=words):
        measure.host_copies(**given)


# Kernels


def event(name, start, end, *, there=False, own=0.0, within=None, annotation=False):
    kind = DeviceType.CUDA if there else DeviceType.CPU
    return SimpleNamespace(
        name=name, device_type=kind, is_user_annotation=annotation, self_cpu_time_total=own,
        time_range=SimpleNamespace(start=start, end=end), cpu_parent=within,
    )  # fmt: skip


SUM = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std>"
MATMUL = "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32_cga1x1x1_execute"


def events_of_a_step():
    """Two kernels at once, one later, an annotation of the whole, and launches on the processor."""
    linear = event("aten::linear", 0, 6)
    addmm = event("aten::addmm", 0, 5, within=linear)
    launch = event("cudaLaunchKernel", 1, 3, within=addmm)
    view = event("aten::view", 3, 4, within=launch)
    node = event("autograd::engine::evaluate_function: AddBackward0", 7, 12)
    add = event("aten::add_", 10, 12, within=event("AddBackward0", 8, 12, within=node))
    kernels = [event(MATMUL, 20, 60, there=True), event(SUM, 50, 70, there=True),
               event(SUM, 90, 100, there=True)]  # fmt: skip
    whole = event("Optimizer.step#SGD.step", 0, 200, there=True, annotation=True)
    here = event("Optimizer.step#SGD.step", 0, 12, annotation=True)
    return [linear, addmm, launch, view, node, add, *kernels, whole, here]


def test_kernels_and_gaps_on_a_simulated_device(monkeypatch):
    card = install(monkeypatch, SimulatedCuda(latency=50e-6), ALONE)
    monkeypatch.setattr(launches, "_profiled", lambda step, device: (events_of_a_step(), 1.0))
    found = measure.kernels(lambda: [card.launch(20e-6) for _ in range(3)], device="cuda")
    assert (found.operations, found.launched) == (2, 3)  # linear and add_
    assert found.busy == pytest.approx(60e-6) and found.whole == pytest.approx(150e-6, rel=0.02)
    assert found.gaps == pytest.approx(0.6, abs=0.01) and found.trusted
    assert found.longest[0][1:] == (1, pytest.approx(40e-6))
    assert found.longest[1][:2] == ("vectorized_elementwise_kernel CUDAFunctor_add", 2)
    lines = repr(found).splitlines()
    assert "≈ 3" in lines[3] and "≈ 60 µs" in lines[4] and "≈ 60%" in lines[6]
    assert sum(line.endswith("≈ –") for line in lines) == 3


def test_the_doubt_of_its_time_is_told(monkeypatch):
    busy = SimulatedNvml({os.getpid(), 7}, {os.getpid(): 40, 7: 40})
    card = install(monkeypatch, SimulatedCuda(), busy)
    monkeypatch.setattr(launches, "_profiled", lambda step, device: (events_of_a_step(), 1.0))
    found = measure.kernels(lambda: card.launch(1e-3), device="cuda")
    assert "another program" in found.doubt and "unsure: another program" in repr(found)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (MATMUL, MATMUL[: launches.NAME]),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD"),
        ("void at::native::(anonymous namespace)::softmax<float, 8>(int)", "softmax"),
        ("void at::native::unrolled<at::native::FillFunctor<float> >", "unrolled FillFunctor"),
        ("a|b", "a"), ("", "a kernel"), ("<lambda>", "a kernel"),
    ],
)  # fmt: skip
def test_names_of_kernels_are_short_and_stay_in_their_cell(name, short):
    assert launches._short(name) == short


def training():
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    sgd, x = torch.optim.SGD(model.parameters(), foreach=False), torch.randn(256, 64)

    def step():
        sgd.zero_grad()
        model(x).square().mean().backward()
        sgd.step()

    return step


def test_operations_of_a_step_on_this_processor():
    found = measure.kernels(training(), device="cpu", budget=0.05)
    assert (found.device, found.launched) == ("cpu", None) and 20 < found.operations < 200
    assert 0 < found.busy <= found.whole and 0 <= found.gaps < 1
    names, counts, seconds = zip(*found.longest, strict=True)
    assert len(names) == 5 and all("::" in name for name in names)
    assert list(seconds) == sorted(seconds, reverse=True) and sum(seconds) <= found.busy * 1.01
    assert "none: the processor computes" in repr(found)


def test_a_matmul_is_one_operation_and_the_longest():
    x = torch.randn(512, 512)
    found = measure.kernels(lambda: x @ x, device="cpu", budget=0.05)
    assert found.operations == 1 and found.longest[0][:2] == ("aten::mm", 1)
    assert (
        measure.kernels(lambda: [x @ x for _ in range(7)], device="cpu", budget=0.05).operations
        == 7
    )


def test_a_call_without_operations_is_one_gap():
    found = measure.kernels(lambda: sum(range(10**5)), device="cpu", budget=0.02)
    assert (found.operations, found.busy, found.gaps, found.longest) == (0, 0.0, 1.0, ())
    assert len(found.shown().rows) == 10


def test_time_between_operations_is_a_gap():
    x = torch.randn(400, 400)

    def step(between):
        x @ x
        return sum(range(between))

    close = measure.kernels(lambda: step(0), device="cpu", budget=0.05)
    apart = measure.kernels(lambda: step(10**6), device="cpu", budget=0.05)
    assert apart.gaps > close.gaps + 0.2 and apart.operations == close.operations == 1


def test_the_device_is_busy_once_where_two_kernels_run_at_once():
    assert (
        launches._covered([event("", 0, 10), event("", 2, 5), event("", 8, 12), event("", 20, 21)])
        == 13e-6
    )
    assert launches._covered([]) == 0.0


def test_what_is_no_step():
    for wrong, error in ((3, TypeError), (lambda: (n for n in "ab"), TypeError)):
        with pytest.raises(error, match="step must|fn must"):
            measure.kernels(wrong, device="cpu", budget=0.01)
    with pytest.raises(ValueError, match="budget must be"):
        measure.kernels(lambda: 1, budget=-1)
    with pytest.raises(RuntimeError, match="must not run inside"):
        measure.kernels(lambda: measure.time(lambda: 1), device="cpu", budget=0.01)
    with pytest.raises(ZeroDivisionError):
        measure.kernels(lambda: 1 / 0, device="cpu", budget=0.01)


def test_the_profiler_says_nothing_on_stderr():
    """Nor may a notebook's cell; torch's own reports would stand there."""
    program = (
        "from course_utils import measure\nimport torch\n"
        + "measure.kernels(lambda: torch.ones(3) + 1, budget=0.01)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stderr == ""


def test_both_stand_beside_recorded_runs():
    for quantity in ("pinned copies", "a small training step"):
        assert hardware.elsewhere(quantity).rows[-1] == ("a GPU", "not recorded yet", "–")
