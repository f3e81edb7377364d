"""How an exercise answers: in one line, without ever raising, and without telling the answer."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from course_utils.arguments import cause, one_line, shown
from course_utils.arguments import number as plain_number
from course_utils.compare import slips
from course_utils.session import in_order, session, sync
from course_utils.table import Table, table
from course_utils.train.random_states import random_states, restore_random_states

MARKS = {"right": "✓", "wrong": "✗", "open": "○"}
# Okabe and Ito's green and vermilion, told apart by colour-blind readers, and a grey: all three
# show on a light and on a dark page.
COLOURS = {"right": "#009e73", "wrong": "#d55e00", "open": "#7f7f7f"}


@dataclass(frozen=True)
class Verdict:
    """What a check says: `state` is 'right', 'wrong' or 'open' (no answer yet).

    One that was `measured` depends on the machine, and begins with the words that say so.
    """

    id: str
    state: str
    words: str
    measured: bool = False

    def __repr__(self) -> str:
        where = "On this machine " if self.measured else ""
        return f"{where}{MARKS[self.state]} {self.id}: {self.words}"

    def _repr_html_(self) -> str:
        colour = COLOURS[self.state]
        mark = f'<b style="color: {colour}">{MARKS[self.state]} {self.id}</b>'
        edge = f"border-left: 4px solid {colour}; padding-left: 0.7em"
        if self.measured:
            return f'<p style="{edge}">{escape(repr(self))}</p>'
        return f'<p style="{edge}">{mark}: {escape(self.words)}</p>'

    def hint(self) -> "Verdict":
        """The exercise's next hint, so that `check.ex00_1(answer).hint()` works too."""
        return next(one for one in REGISTRY.values() if one.id == self.id).hint()


REGISTRY: dict[str, "Exercise"] = {}  # by the judge's name: ex07_1


class Wrong(Exception):
    """Raised by a judge with the sentence that tells the learner what is wrong."""


class Unsure(Exception):
    """Raised by a judge whose measurement is not to be trusted, with the doubt."""


class Exercise:
    """A callable check. `judge` returns the praise for a right answer or raises `Wrong`."""

    def __init__(
        self, id: str, hints: Sequence[str], judge: Callable[[object], str], measured: bool = False
    ) -> None:
        self.id, self.hints, self.measured = id, tuple(hints), measured
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
            session.tried.add(self.id)
            praise = self._judge(answer)
        except Wrong as reason:
            return Verdict(self.id, "wrong", one_line(str(reason), 400), self.measured)
        except Unsure as doubt:
            return Verdict(self.id, "open", f"not judged, since {doubt}.", self.measured)
        except (Exception, SystemExit) as error:  # whatever the learner's own code raised
            said = f": {cause(error)}" if cause(error) else ""
            return Verdict(self.id, "wrong", f"your answer raised {type(error).__name__}{said}")
        if not _in_solution_cell():
            session.solved.add(self.id)
            sync()
        return Verdict(self.id, "right", praise, self.measured)

    def hint(self) -> Verdict:
        """The next hint; after the last one, the last again.

        Before the first attempt it asks for one, once: a notebook whose cells are all run gives
        nothing away.
        """
        every = len(self.hints)
        if self.id not in session.tried:
            session.tried.add(self.id)
            again = f"try it first. If you are stuck, run this again: there are {every} hints."
            return Verdict(self.id, "open", again)
        given = min(sync().hints.get(self.id, 0), every - 1)
        session.hints[self.id] = given + 1
        sync()
        return Verdict(self.id, "open", f"hint {given + 1} of {every}: {self.hints[given]}")

    def __repr__(self) -> str:
        return f"check of exercise {self.id}: {self.title}"


def exercise(
    id: str, *hints: str, measured: bool = False
) -> Callable[[Callable[[object], str]], Exercise]:
    """Make the decorated judge an `Exercise` with these hints, mildest first.

    `measured` says that the judge asks this machine. The judge's docstring is the exercise's title.
    Its name joins the registry, from which the package takes `check.ex07_1`.
    """

    def register(judge: Callable[[object], str]) -> Exercise:
        made = REGISTRY[judge.__name__] = Exercise(id, hints, judge, measured)
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
    """Accept a number within a share `within` of `right`, 0 for a count; else raise `Wrong`.

    `mistakes` pairs the values that likely errors lead to with what went wrong there; they are
    recognised in four digits or three, or with `exact_mistakes` as closely as the right answer.
    """
    answer = finite(answer)
    if math.isclose(answer, right, rel_tol=within) if within else answer == right:
        return
    mistaken(answer, mistakes, within=within, exact=exact_mistakes)
    way = "too large" if answer > right else "too small"
    off = slips.power_of_ten(answer, right) or slips.generic(answer, right, unit)
    raise Wrong(f"{answer:g}{f' {unit}' if unit else ''} is {way}{f': {off}' if off else '.'}")


def mistaken(
    answer: float, mistakes: Sequence[tuple[float, str]], *, within: float, exact: bool = False
) -> None:
    """Raise `Wrong` with the sentence of the first of the `mistakes` that leads to `answer`.

    They are recognised in four digits or three, or with `exact` within a share `within` alone.
    """
    closely = within if exact else max(within, slips.ROUNDED)
    rounded = [(float(f"{value:.{n}g}"), why) for n in (4, 3) for value, why in mistakes]
    known = [*mistakes, *([] if exact else rounded)]
    if mistake := slips.named(answer, known, within=closely):
        raise Wrong(mistake)


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


def progress(chapter: str | None = None) -> Table:
    """The exercises of a chapter ('00') and which are solved; without one, how many of each.

    Raises ValueError when there is no such chapter.
    """
    solved, by_id = sync().solved, {e.id: e for e in REGISTRY.values()}
    chapters: dict[str, list[str]] = {}
    for id in in_order(by_id):
        chapters.setdefault(id.partition(".")[0], []).append(id)
    if chapter is None:
        counts = [(name, len(solved & {*ids}), len(ids)) for name, ids in chapters.items()]
        return table(("chapter", "solved", "exercises"), counts, title="Your exercises")
    if chapter not in list(chapters):
        raise ValueError(f"chapter must be one of {list(chapters)}, got {chapter!r}")
    states = {id: "✓ solved" if id in solved else "○ open" for id in chapters[chapter]}
    rows = [(id, by_id[id].title, state) for id, state in states.items()]
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
