"""Collectives counted in real processes, against what is known of them and against predict."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from course_utils import measure, predict
from course_utils.train import processes

SECONDS = 400.0
SIZE, LAYERS = 64, 3
WEIGHTS = 4 * LAYERS * SIZE * SIZE  # bytes


def told(found):
    return [[row.kind, row.nbytes, row.devices, row.count] for row in found.rows]


def stack(size, layers):
    return nn.Sequential(*[nn.Linear(size, size, bias=False) for _ in range(layers)])


def steps_in_each_form(size, layers):
    x, found = torch.randn(4, size), {}
    copied = DistributedDataParallel(stack(size, layers))
    by_layer = stack(size, layers)
    for layer in by_layer:
        fully_shard(layer)
    sharded = {"layers": fully_shard(by_layer), "root": fully_shard(stack(size, layers))}
    for name, model in {"DDP": copied, **sharded}.items():
        for _ in range(3):  # DDP arranges its buckets anew in the second step
            model(x).sum().backward()
        found[name] = told(measure.collectives(lambda model=model: model(x).sum().backward()))
    return found


def one_of_each():
    import torch.distributed._functional_collectives as functional

    rank, ranks = dist.get_rank(), dist.get_world_size()
    pair = dist.new_group([0, 1])

    def run():
        dist.all_reduce(torch.ones(6))
        dist.all_reduce(torch.ones(3))
        dist.all_reduce(torch.ones(3))
        dist.broadcast(torch.ones(5, dtype=torch.float64), 0)
        dist.all_gather_into_tensor(torch.empty(2 * ranks), torch.ones(2))
        dist.reduce_scatter_tensor(torch.empty(2), torch.ones(2 * ranks))
        functional.all_reduce(torch.ones(4), "sum", dist.group.WORLD).sum()
        dist.barrier()
        if rank < 2:
            dist.all_reduce(torch.ones(1), group=pair)
        if rank == 0:
            dist.send(torch.ones(7), 2)
        if rank == 2:
            dist.recv(torch.ones(7), 0)

    return told(measure.collectives(run))


def test_what_a_step_sends_is_what_is_predicted():
    text = processes.script(steps_in_each_form, [stack, told])
    for ranks in (1, 2):
        made = processes.launch(text, ranks, {"size": SIZE, "layers": LAYERS}, seconds=SECONDS)
        for found in made.results:
            assert found["DDP"] == [["all-reduce", WEIGHTS, ranks, 1]]
            sent = {name: sum(n * predict.collective_bytes(kind, nbytes, devices)
                              for kind, nbytes, devices, n in rows)
                    for name, rows in found.items()}  # fmt: skip
            assert sent["DDP"] == predict.step_traffic(WEIGHTS, ranks, 0)
            assert sent["layers"] == predict.step_traffic(WEIGHTS, ranks, 3)
            assert sent["root"] == predict.step_traffic(WEIGHTS, ranks, 3, by_layer=False)
            layer = WEIGHTS // LAYERS
            if ranks == 2:
                assert found["layers"] == [["all-gather", layer, 2, 2 * LAYERS],
                                           ["reduce-scatter", layer, 2, LAYERS]]  # fmt: skip
                assert found["root"] == [["all-gather", WEIGHTS, 2, 1],
                                         ["reduce-scatter", WEIGHTS, 2, 1]]  # fmt: skip


def test_every_kind_is_counted_with_its_group():
    made = processes.launch(processes.script(one_of_each, [told]), 3, {}, seconds=SECONDS)
    common = [["all-reduce", 24, 3, 1], ["all-reduce", 12, 3, 2], ["broadcast", 40, 3, 1],
              ["all-gather", 24, 3, 1], ["reduce-scatter", 24, 3, 1],
              ["all-reduce", 16, 3, 1]]  # fmt: skip
    assert made.results[0] == [*common, ["all-reduce", 4, 2, 1], ["send", 28, 3, 1]]
    assert made.results[1] == [*common, ["all-reduce", 4, 2, 1]]
    assert made.results[2] == [*common, ["receive", 28, 3, 1]]


def test_a_run_without_collectives_and_bad_arguments():
    found = measure.collectives(lambda: torch.ones(2) + 1)
    assert found.rows == () and found.nbytes("all-reduce") == 0
    assert found.shown().columns == ("collective", "whole tensor, B", "processes", "times")
    with pytest.raises(ValueError, match="kind must be one of"):
        found.nbytes("gossip")
    with pytest.raises(TypeError, match="fn must be a function"):
        measure.collectives(3)
