"""Guess, arithmetic and machine side by side, and the bound that explains a time."""

from course_utils.compare.bounds import bound
from course_utils.compare.comparison import ABSENT, Comparison
from course_utils.compare.ledger import Compare, compare
from course_utils.compare.trends import trend

__all__ = ["ABSENT", "Compare", "Comparison", "bound", "compare", "trend"]
