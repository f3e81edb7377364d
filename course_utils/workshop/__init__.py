"""What the Makefile calls: the learner's copy, JupyterLab, slides, saved runs, student copies.

See `python -m course_utils.workshop --help`.
"""
