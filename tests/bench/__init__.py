"""The course's instruments beside their peers, and its chapters' seconds: `make bench`.

Every figure that the course promises of its instruments is measured here and judged. Peers are
never needed by the course itself; one that is missing or fails is named, and no number stands in.
"""
