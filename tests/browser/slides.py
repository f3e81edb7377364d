"""Live slides: walk them as a lecturer does, and measure that nothing leaves the screen."""

from collections.abc import Iterator

from playwright.sync_api import Page

from tests.browser.server import Lab

VIEWPORT = {"width": 1280, "height": 720}
SLIDE = "section.present:not(:has(section))"
ALL_SLIDES = ".slides section:not(:has(section))"
NO_ANIMATION = "* { transition: none !important; animation: none !important; }"
STATE = f"""() => {{
    const slides = [...document.querySelectorAll('{ALL_SLIDES}')];
    const shown = document.querySelectorAll('{SLIDE} .fragment.visible').length;
    return [slides.indexOf(document.querySelector('{SLIDE}')), shown];
}}"""
AT_THE_END = f"""() => {{
    const last = [...document.querySelectorAll('{ALL_SLIDES}')].at(-1);
    return last.matches('{SLIDE}') && !last.querySelector('.fragment:not(.visible)');
}}"""
CHANGED = f"before => String(({STATE})()) !== String(before)"
TOO_BIG = """slide => {
    const found = [];
    if (slide.offsetHeight > 720) found.push(`${slide.offsetHeight} px high`);
    const parts = slide.querySelectorAll(
        '.cm-scroller, .jp-OutputArea-output, .jp-OutputArea-output *, .jp-RenderedMarkdown *');
    const edges = [...parts].filter(part => part.offsetWidth > 0)
        .map(part => part.getBoundingClientRect().x + Math.max(part.offsetWidth, part.scrollWidth));
    const edge = Math.round(Math.max(0, ...edges));
    if (edge > 1280) found.push(`${edge} px wide`);
    return found;
}"""


def open_slides(page: Page, lab: Lab, name: str) -> None:
    """Open `name` as live slides, at the first one."""
    page.set_viewport_size(VIEWPORT)
    page.goto(lab.url(f"/rise/{name}"))
    page.wait_for_selector(SLIDE)
    page.add_style_tag(content=NO_ANIMATION)
    page.wait_for_function("() => [...document.images].every(image => image.complete)")


def walk(page: Page) -> Iterator[str]:
    """Show one slide after the other; yields each one's first words."""
    index = None
    while True:
        state = page.evaluate(STATE)
        if state[0] != index:
            index = state[0]
            yield _first_words(page)
        if not _step(page, state):
            break


def count(page: Page) -> int:
    """How many slides there are."""
    return page.locator(ALL_SLIDES).count()


def too_big(page: Page) -> list[str]:
    """What of the slide on the screen is larger than the screen."""
    return page.eval_on_selector(SLIDE, TOO_BIG)


def _first_words(page: Page) -> str:
    return " ".join(page.inner_text(SLIDE).split()[:8])


def _step(page: Page, state: list[int]) -> bool:
    """Press Space and wait for what it shows; False at the end, where it leads nowhere."""
    if page.evaluate(AT_THE_END):
        return False
    page.keyboard.press("Space")
    page.wait_for_function(CHANGED, arg=state)
    return True
