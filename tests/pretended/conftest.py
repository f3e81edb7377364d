"""Every test here runs on the pretended accelerator, so in a process of its own."""

import tests.pretended  # noqa: F401 - from now on torch.accelerator finds it
