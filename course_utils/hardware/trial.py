"""Whether a device really computes: it is tried once, which also pays for its start-up.

An installed PyTorch may see a GPU for which it carries no kernels: a build for CUDA 13 has none for
a V100 or a P100. And the first operation on a device costs seconds (its context, the libraries of
each number format), which no measurement should pay.
"""

from functools import cache

import torch

from course_utils.arguments import cause

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@cache
def refusals(kind: str) -> dict[str, str]:
    """The number formats that device `kind` cannot multiply in, each with the reason."""
    found = {}
    for name, dtype in DTYPES.items():
        try:
            x = torch.ones(16, 16, dtype=dtype, device=kind)
            y = (x @ x).sum()
            torch.accelerator.synchronize()
            if y.item() != 16**3:
                found[name] = f"16³ ones came out as {y.item():g}"
        except Exception as error:  # whatever a driver that does not fit raises
            found[name] = cause(error) or type(error).__name__
    return found
