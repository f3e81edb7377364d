"""The tests; none of them touches the progress file of the learner whose terminal runs them."""

import os

os.environ.pop("COURSE_PROGRESS", None)
