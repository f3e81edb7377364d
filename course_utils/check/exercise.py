"""How an exercise answers: in one line, without ever raising, and without telling the answer."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from course_utils.arguments import cause, one_line, shown
from course_utils.arguments import number as plain_number
from course_utils.compare import slips
from course_utils.session import session
from course_utils.table import Table, table
from course_utils.train.random_states import random_states, restore_random_states

MARKS = {"right": "✓", "wrong": "✗", "open": "○"}


@dataclass(frozen=True)
class Verdict:
    """What a check says: `state` is 'right', 'wrong' or 'open' (no answer yet)."""

    id: str
    state: str
    words: str

    def __repr__(self) -> str:
        return f"{MARKS[self.state]} {self.id}: {self.words}"

    def _repr_html_(self) -> str:
        return f"<p>{MARKS[self.state]} <b>{self.id}</b>: {escape(self.words)}</p>"


REGISTRY: dict[str, "Exercise"] = {}  # by the judge's name: ex07_1


class Wrong(Exception):
    """Raised by a judge with the sentence that tells the learner what is wrong."""


class Exercise:
    """A callable check. `judge` returns the praise for a right answer or raises `Wrong`."""

    def __init__(self, id: str, hints: Sequence[str], judge: Callable[[object], str]) -> None:
        self.id, self.hints = id, tuple(hints)
        self.title = (judge.__doc__ or id).rstrip(".")
        self._judge = judge
        self.__doc__ = f"Check exercise {id}: {self.title}. `.hint()` gives the next hint."

    def __call__(self, answer: object = None) -> Verdict:
        """Judge `answer`; None counts as not answered yet. Never raises.

        The global random generators are afterwards as they were before.
        """
        before = random_states()
        try:
            return self._judged(answer)
        finally:
            restore_random_states(before)

    def _judged(self, answer: object) -> Verdict:
        try:
            if _is_open(answer):
                name = f"check.ex{self.id.replace('.', '_')}.hint()"
                return Verdict(self.id, "open", f"no answer yet. {name} gives a hint.")
            praise = self._judge(answer)
        except Wrong as reason:
            return Verdict(self.id, "wrong", one_line(str(reason), 400))
        except (Exception, SystemExit) as error:  # whatever the learner's own code raised
            said = f": {cause(error)}" if cause(error) else ""
            return Verdict(self.id, "wrong", f"your answer raised {type(error).__name__}{said}")
        if not _in_solution_cell():
            session.solved.add(self.id)
        return Verdict(self.id, "right", praise)

    def hint(self) -> Verdict:
        """The next hint; after the last one, the last again."""
        given = min(session.hints.get(self.id, 0), len(self.hints) - 1)
        session.hints[self.id] = given + 1
        words = f"hint {given + 1} of {len(self.hints)}: {self.hints[given]}"
        return Verdict(self.id, "open", words)

    def __repr__(self) -> str:
        return f"check of exercise {self.id}: {self.title}"


def exercise(id: str, *hints: str) -> Callable[[Callable[[object], str]], Exercise]:
    """Make the decorated judge an `Exercise` with these hints, mildest first.

    The judge's docstring is the exercise's title. Its name joins the registry, from which the
    package takes `check.ex07_1`.
    """

    def register(judge: Callable[[object], str]) -> Exercise:
        made = REGISTRY[judge.__name__] = Exercise(id, hints, judge)
        return made

    return register


def number(
    answer: object,
    right: float,
    *,
    within: float = 0.01,
    mistakes: Sequence[tuple[float, str]] = (),
    unit: str = "",
    exact_mistakes: bool = False,
) -> None:
    """Accept a number within a share `within` of `right`; else raise `Wrong`.

    `mistakes` pairs the values that likely errors lead to with what went wrong there; they are
    recognised in four digits, or with `exact_mistakes` as closely as the right answer.
    """
    answer = finite(answer)
    if math.isclose(answer, right, rel_tol=within):
        return
    closely = within if exact_mistakes else max(within, slips.ROUNDED)
    if mistake := slips.named(answer, mistakes, within=closely):
        raise Wrong(mistake)
    way = "too large" if answer > right else "too small"
    off = slips.power_of_ten(answer, right)
    raise Wrong(f"{answer:g}{f' {unit}' if unit else ''} is {way}{f': {off}' if off else '.'}")


def finite(answer: object) -> float:
    """Return `answer` if it is a finite number, a 0-dimensional array or tensor; else `Wrong`."""
    if getattr(answer, "ndim", None) == 0 and hasattr(answer, "item"):
        answer = answer.item()
    try:
        return plain_number("answer", answer)
    except (TypeError, ValueError):
        raise Wrong(f"a finite number is expected, got {shown(answer)}.") from None


def function(answer: object, what: str) -> Callable:
    """Return `answer` if it can be called; else raise `Wrong`, saying `what` is expected."""
    if not callable(answer):
        raise Wrong(f"{what} is expected, got {shown(answer)}.")
    return answer


def names(answer: object, known: Collection[str], stranger: str) -> set[str]:
    """The names in `answer`, in lower case and without spaces around, if all of them are `known`.

    Else raise `Wrong`: `stranger` is the sentence about another one, which stands where {} is.
    """
    if not isinstance(answer, (set, frozenset, list, tuple)):
        raise Wrong(f"a set of names is expected, got {shown(answer)}.")
    found = {name.strip().lower() for name in answer if isinstance(name, str)}
    strange = [name for name in answer if not isinstance(name, str)]
    strange += sorted(found.difference(known))
    if strange:
        raise Wrong(stranger.format(shown(strange[0])))
    return found


def progress(chapter: str) -> Table:
    """The exercises of a chapter ('00') and which of them are solved in this kernel."""
    every = sorted(REGISTRY.values(), key=lambda e: e.id)
    here = [e for e in every if e.id.startswith(f"{chapter}.")]
    if not here:
        known = sorted({e.id.partition(".")[0] for e in every})
        raise ValueError(f"chapter must be one of {known}, got {chapter!r}")
    rows = [(e.id, e.title, "✓ solved" if e.id in session.solved else "○ open") for e in here]
    return table(("exercise", "what", "state"), rows, title=f"Exercises of chapter {chapter}")


def _is_open(answer: object) -> bool:
    """Whether nothing was answered yet: None, or a form in which every field is None."""
    if isinstance(answer, Mapping) and answer:
        return all(value is None for value in answer.values())
    return answer is None


def _in_solution_cell() -> bool:
    """Whether the cell that runs begins with the solution comment; such checks do not count."""
    from IPython import get_ipython

    shell = get_ipython()
    if not hasattr(shell, "get_parent"):  # not in a notebook's kernel
        return False
    source = shell.get_parent().get("content", {}).get("code", "")
    return source.lstrip().startswith("# Solution")
