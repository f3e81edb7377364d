"""Many devices: bytes held and sent, against rings that are really walked; intervals, by search."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course_utils import predict
from course_utils.predict import RECIPES

ADAMW = RECIPES["AdamW, fp32"]


def ring(chunks):
    """Walk a ring all-reduce of N devices with these chunk sizes; bytes sent by each device."""
    devices = len(chunks)
    values = [[{rank} for _ in chunks] for rank in range(devices)]
    sent = [0] * devices
    first = [(rank, -step) for step in range(devices - 1) for rank in range(devices)]
    then = [(rank, 1 - step) for step in range(devices - 1) for rank in range(devices)]
    for rank, behind in first + then:
        chunk, following = (rank + behind) % devices, (rank + 1) % devices
        sent[rank] += chunks[chunk]
        values[following][chunk] = values[following][chunk] | values[rank][chunk]
    everyone = set(range(devices))
    assert all(chunk == everyone for row in values for chunk in row)
    return sent


@given(st.integers(1, 9), st.integers(0, 50))
def test_a_ring_that_is_walked_sends_what_is_predicted(devices, chunk):
    predicted = predict.collective_bytes("all-reduce", chunk * devices, devices)
    assert ring([chunk] * devices) == [predicted] * devices


@given(st.lists(st.integers(0, 99), min_size=1, max_size=9))
def test_where_the_devices_do_not_divide_it_the_mean_is_predicted(chunks):
    sent = sum(ring(chunks)) / len(chunks)
    assert sent == pytest.approx(predict.collective_bytes("all-reduce", sum(chunks), len(chunks)))


def test_a_gather_or_a_scatter_is_half_an_all_reduce():
    for kind in ("all-gather", "reduce-scatter"):
        assert predict.collective_bytes(kind, 4096, 4) == 3072
    assert predict.collective_bytes("all-reduce", 4096, 4) == 6144
    assert predict.collective_bytes("all-reduce", 4096, 1) == 0


@pytest.mark.parametrize(
    ("stage", "devices", "held"),
    [(0, 4, 16), (1, 4, 10), (2, 4, 7), (3, 4, 4), (3, 2, 8), (3, 1, 16), (1, 2, 12), (2, 2, 10)],
)
def test_what_each_stage_keeps(stage, devices, held):
    assert predict.sharded_recipe(ADAMW, devices, stage).total == held


def test_the_zero_paper_s_figure_1():
    """7.5e9 parameters on 64 devices, mixed precision with Adam: 120, 31.4, 16.6 and 1.9 GB."""
    mixed = RECIPES["AdamW, bf16 + fp32 master"]
    held = [7.5 * predict.sharded_recipe(mixed, 64, stage).total for stage in range(4)]
    assert held == pytest.approx([120, 31.4, 16.6, 1.9], rel=0.02)


def test_what_a_step_sends():
    for stage in (0, 1, 2):
        assert predict.step_traffic(400, 4, stage) == 600
    assert predict.step_traffic(400, 4, 3) == 900
    assert predict.step_traffic(400, 4, 3, by_layer=False) == 600
    assert predict.step_traffic(400, 1, 3) == 0


def test_seconds_of_a_link():
    assert predict.link_seconds(100e9, 50e9) == 2
    assert predict.link_seconds(1e6, 1e9, messages=6, latency=1e-4) == pytest.approx(1.6e-3)


def test_a_pipeline_s_bubble_by_walking_the_clock():
    """Stage s works on micro-batch b in tick s + b, forward; it waits in all others."""
    for stages in range(1, 6):
        for many in range(1, 9):
            ticks = many + stages - 1
            waits = [ticks - sum(0 <= t - s < many for t in range(ticks)) for s in range(stages)]
            assert set(waits) == {stages - 1}
            assert predict.pipeline_bubble(stages, many) == pytest.approx(waits[0] / ticks)


def test_tensor_parallel_bytes():
    """Llama-3 70B's 80 layers of width 8192, one sequence of 8192 in bf16 over 8 devices."""
    signal = 8192 * 8192 * 2
    assert predict.tensor_parallel_bytes(8192, 8192, 80, 8) == 80 * 4 * 2 * 7 / 8 * signal
    assert predict.tensor_parallel_bytes(8192, 8192, 80, 1) == 0


@given(st.floats(1, 600), st.floats(1e4, 1e7))
def test_young_s_interval_loses_least(save, between):
    best = predict.checkpoint_interval(save, between)
    least = predict.lost_share(best, save, between)
    for other in (0.9, 0.99, 1.01, 1.1, 2):
        assert predict.lost_share(other * best, save, between) >= least
    assert least == pytest.approx((2 * save / between) ** 0.5)


def test_starting_again_adds_a_constant_share():
    assert predict.lost_share(100, 10, 1000) == pytest.approx(0.1 + 0.05)
    assert predict.lost_share(100, 10, 1000, restart_seconds=20) == pytest.approx(0.17)
