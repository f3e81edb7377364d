"""Checks of chapter 00: napkin arithmetic, and one matmul on the learner's machine."""

import random

from course_utils.check.exercise import exercise, finite, function, number
from course_utils.check.plans import judge, random_plan, slips
from course_utils.check.programs import named_in_all
from course_utils.check.timed import matmul_takes
from course_utils.predict import training_flops

H100_BF16 = 989.5e12
A100_BF16 = 312e12
DAY = 86400
RUN = training_flops(70e9, 15e12)


@exercise(
    "00.1",
    "Days and MFU trade off: twice the MFU, half the days.",
    "MFU = FLOPs needed / (devices × peak × seconds you have).",
    "The seconds of 90 days are 90 × 86 400; the devices are 1024, each with its full peak.",
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
            (
                2 * RUN / full,
                "twice too much: that is the ratio of the days; which MFU belongs to 143.93?",
            ),
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
            (1640, "that is rounded: the least whole number of devices is asked."),
            (1637, "one device too few misses the date, if only by minutes."),
            (546, "you counted the forward pass only: training is 6·N·T."),
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
    "FLOPs per day = devices × peak × MFU × 86 400.",
    "The A100's peak in its datasheet is 312e12 FLOP/s in bf16, dense.",
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
            (days * 0.45, "you left out the MFU: the devices reach 45 % of their peak."),
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
    "Parameters = bytes of all devices / bytes per parameter.",
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
            (8 * 80 * 2**30 / 8, "that is 80 GiB per device: a GB is 1e9 bytes, a GiB 2**30."),
            (10e9, "that is one device's share: sharded over 8, their memories add up."),
            (80, "the number of parameters is expected, not billions of them."),
            (8, "those are the bytes per parameter; how many parameters fit?"),
        ],
    )
    return "right: 8 bytes per parameter, twice the model that AdamW allows."


@exercise(
    "00.5",
    "Turn the rule around: the seconds and the peak are known, and n is what you look for.",
    "2·n³ = seconds × FLOP/s. The cube root of a number x is x ** (1 / 3).",
    "Which rate does your machine reach at that size? Look at the figure of the first sweep.",
    measured=True,
)
def ex00_5(answer: object) -> str:
    """An fp32 matmul that takes 10 ms here, predicted and measured."""
    return matmul_takes(answer, 0.010)


PLANS = 200


@exercise(
    "00.6",
    "There are two conditions. How many devices does each one ask for?",
    "In time: 6·N·T FLOPs within days × 86 400 seconds. In memory: 16·N bytes, shared out.",
    "Both must hold at once, and devices come whole.",
)
def ex00_6(answer: object) -> str:
    """The devices that a training run needs, as a function."""
    needed = function(answer, "a function devices_needed(N, T, days, peak, memory, mfu)")
    drawn = random.Random()
    found = [(plan, finite(needed(**plan))) for plan in (random_plan(drawn) for _ in range(PLANS))]
    named_in_all([(count, slips(**plan)) for plan, count in found])
    for plan, count in found:
        judge(plan, count)
    return f"right: the larger of two numbers, in {PLANS} random plans."


@exercise(
    "00.7",
    "A watt is a joule per second. How many GPU-seconds are 6.4 million GPU-hours?",
    "Joules = GPUs × seconds × watts. Then share them out among the tokens.",
)
def ex00_7(answer: object) -> str:
    """Joules of electricity per training token."""
    right = 6.4e6 * 3600 * 700 / 15e12
    number(
        answer,
        right,
        within=0.03,
        unit="joules",
        mistakes=[
            (right / 3600, "those are watt-hours: an hour has 3600 seconds, a watt-hour 3600 J."),
            (right / 60, "an hour has 3600 seconds, not 60."),
            (right * 1000, "those are millijoules."),
            (right / 1000, "those are kilojoules: 700 W are 0.7 kW."),
            (right * 15e12, "that is the whole run; how much is it per token?"),
            (right / 700, "those are GPU-seconds per token: each second takes 700 joules."),
            (right * 15e12 / 3.6e9, "that is the whole run in MWh; how many joules per token?"),
            (1 / right, "upside down: those are tokens per joule."),
            (right * 15e12 / 70e9, "that is per parameter; per token is asked."),
        ],
    )
    return "right: about one joule, as much as lifting an apple by a metre."
