"""Figures from given data. They show; they never measure or compute.

Each returns a `Picture`: a PNG with its finding as a visible caption, and a description of what is
drawn, which serves as alternative text and is what the tests compare.
"""

from course_utils.draw.cost import bars, plan, stacked
from course_utils.draw.curves import curves, live
from course_utils.draw.floats import bits, number_line, ranges
from course_utils.draw.graph import graph
from course_utils.draw.growing import growing, valley
from course_utils.draw.pattern import pattern
from course_utils.draw.picture import Picture
from course_utils.draw.roofline import roofline
from course_utils.draw.storage import mask, storage
from course_utils.draw.timeline import timeline

__all__ = [
    "Picture",
    "bars",
    "bits",
    "curves",
    "graph",
    "growing",
    "live",
    "mask",
    "number_line",
    "pattern",
    "plan",
    "ranges",
    "roofline",
    "stacked",
    "storage",
    "timeline",
    "valley",
]
