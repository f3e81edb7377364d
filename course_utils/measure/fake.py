"""Tensors without memory: shapes, dtypes and storages of a size, and nothing in them."""

from contextlib import AbstractContextManager


def fake() -> AbstractContextManager:
    """Inside this block every new tensor is fake: operations give the right shape, and no numbers.

    `measure.memory` weighs them as if they were real, so that a model too large for this machine
    can be accounted for. Unlike meta tensors they keep their device, and run the operations that
    it would run. Needs torch._subclasses.fake_tensor.FakeTensorMode, a private module.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode()
