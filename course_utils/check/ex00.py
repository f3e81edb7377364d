"""Checks of chapter 00: napkin arithmetic."""

from course_utils.check.exercise import exercise, number
from course_utils.predict import training_flops

H100_BF16 = 989.5e12
A100_BF16 = 312e12
DAY = 86400
RUN = training_flops(70e9, 15e12)


@exercise(
    "00.1",
    "Days and MFU trade off: twice the MFU, half the days.",
    "MFU = FLOPs needed / (devices × peak × seconds you have).",
    "6.3e24 over 1024 × 989.5e12 × (90 × 86 400).",
)
def ex00_1(answer: object) -> str:
    """The MFU that 90 days need."""
    full = 1024 * H100_BF16 * 90 * DAY
    number(
        answer,
        RUN / full,
        within=0.005,
        mistakes=[
            (100 * RUN / full, "MFU is a share of the peak, between 0 and 1, not a percentage."),
            (RUN / full / 2, "half of it: did you divide by 1979e12, the rate with sparsity?"),
            (2 * RUN / full, "twice too much: 143.93 / 90 still has to be multiplied by the 0.5."),
            (1024 * RUN / full, "you left out the 1024 devices."),
            (0.5 * 90 / (RUN / full / 0.5 * 90), "upside down: fewer days need a higher MFU."),
            (
                RUN / full / 3,
                "you counted 2·N·T: that is the forward pass only, training is 6·N·T.",
            ),
        ],
    )
    return "right. Large runs report 0.3 to 0.5, so this plan needs more devices, not more hope."


@exercise(
    "00.2",
    "Days and devices trade off: twice the devices, half the days.",
    "devices = FLOPs needed / (FLOPs one device does in 90 days at MFU 0.5).",
    "Devices come whole: one too few misses the date, if only by minutes.",
)
def ex00_2(answer: object) -> str:
    """The H100s that 90 days need at MFU 0.5."""
    exact = RUN / (H100_BF16 * 0.5 * 90 * DAY)
    number(
        answer,
        1638,
        within=1e-9,
        mistakes=[
            (1637, "one device too few misses the date, if only by minutes."),
            (exact, "devices come whole: which way must you round to keep the date?"),
            (1639, "one more than needed: round the exact quotient up, once."),
            (819, "you used the full peak: at MFU 0.5 a device does half of it."),
            (820, "you used the full peak: at MFU 0.5 a device does half of it."),
            (
                1024 * 90 / (RUN / (1024 * H100_BF16 * 0.5 * DAY)),
                "upside down: fewer days, more devices.",
            ),
        ],
    )
    return "right: 1024 × 143.93 / 90, rounded up."


@exercise(
    "00.3",
    "The FLOPs are given this time: no 6·N·T is needed.",
    "FLOPs a day = devices × peak × MFU × 86 400.",
    "An A100 promises 312e12 FLOP/s in bf16, dense.",
)
def ex00_3(answer: object) -> str:
    """Days for GPT-3's FLOPs on 1024 A100."""
    days = 3.14e23 / (1024 * A100_BF16 * 0.45 * DAY)
    number(
        answer,
        days,
        within=0.015,
        unit="days",
        mistakes=[
            (days * 0.45, "you left out the MFU: the devices do 45 % of what is promised."),
            (days / 2, "624e12 is the A100's rate with sparsity; dense is half."),
            (days * A100_BF16 / H100_BF16, "you used the H100's peak; these are A100s."),
            (days * 1024, "you left out the 1024 devices."),
            (days * DAY, "that is in seconds; a day has 86 400."),
            (days * 24, "that is in hours."),
        ],
    )
    return "right: less than four weeks, at an MFU that is assumed."


@exercise(
    "00.4",
    "Plain SGD keeps no state of its own. What is left of 4 + 4 + (4 + 4)?",
    "Each parameter needs itself and its gradient, in fp32.",
    "Parameters = bytes of all devices / bytes a parameter.",
)
def ex00_4(answer: object) -> str:
    """Largest model for plain SGD on 8 × 80 GB."""
    number(
        answer,
        80e9,
        within=0.001,
        unit="parameters",
        mistakes=[
            (40e9, "you kept AdamW's two running averages: plain SGD has none."),
            (160e9, "you forgot the gradients: they are as large as the parameters."),
            (53.33e9, "you kept one running average: that is SGD with momentum."),
            (8 * 80 * 2**30 / 8, "that is 80 GiB a device: a GB is 1e9 bytes, a GiB 2**30."),
            (10e9, "that is one device's share: sharded over 8, their memories add up."),
            (80, "the number of parameters is expected, not billions of them."),
            (8, "those are the bytes a parameter; how many parameters fit?"),
        ],
    )
    return "right: 8 bytes a parameter, twice the model that AdamW allows."
