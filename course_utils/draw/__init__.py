"""Figures from given data. They show; they never measure or compute.

Each returns a `Picture`: a PNG with its finding as a visible caption, and a description of what is
drawn, which serves as alternative text and is what the tests compare.
"""

from course_utils.draw.autograd import graph
from course_utils.draw.capacities import needs
from course_utils.draw.cells import mask, storage
from course_utils.draw.cost import bars, stacked
from course_utils.draw.depth import fans
from course_utils.draw.floats import bits, number_line, ranges
from course_utils.draw.histograms import magnitudes
from course_utils.draw.linear_layers import layers
from course_utils.draw.lines import curves
from course_utils.draw.phases import timeline
from course_utils.draw.picture import Picture
from course_utils.draw.plans import plan
from course_utils.draw.rearrangement import pattern
from course_utils.draw.regions import bounds
from course_utils.draw.rooflines import roofline
from course_utils.draw.transformers import account

__all__ = [
    "Picture",
    "account",
    "bars",
    "bits",
    "bounds",
    "curves",
    "fans",
    "graph",
    "layers",
    "magnitudes",
    "mask",
    "needs",
    "number_line",
    "pattern",
    "plan",
    "ranges",
    "roofline",
    "stacked",
    "storage",
    "timeline",
]
