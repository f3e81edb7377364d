"""What one kernel remembers: guesses, hints given, exercises solved, the best rates seen.

It is the only state of the package. A restarted kernel begins with an empty one, and nothing is
written to disk.
"""

from dataclasses import dataclass, field


@dataclass
class Session:
    """One learner's state in one notebook."""

    ledger: dict[str, object] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    solved: set[str] = field(default_factory=set)
    peaks: dict[tuple[str, str], object] = field(default_factory=dict)


session = Session()
