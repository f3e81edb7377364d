"""Live slides: walk them as a lecturer does, and find what an audience could not read."""

from collections.abc import Iterator

from playwright.sync_api import Page

from tests.browser.server import Lab

SCREENS = [{"width": 1280, "height": 720}, {"width": 1920, "height": 1080}]
SLIDE = "section.present:not(:has(section))"
ALL_SLIDES = ".slides section:not(:has(section))"
FRAGMENTS = ".slides .fragment"
NO_ANIMATION = "* { transition: none !important; animation: none !important; }"
STATE = f"""() => {{
    const slides = [...document.querySelectorAll('{ALL_SLIDES}')];
    const shown = document.querySelectorAll('{SLIDE} .fragment.visible').length;
    return [slides.indexOf(document.querySelector('{SLIDE}')), shown];
}}"""
AT_AN_END = f"""forward => {{
    const slides = [...document.querySelectorAll('{ALL_SLIDES}')];
    const end = forward ? slides.at(-1) : slides[0];
    const more = forward ? '.fragment:not(.visible)' : '.fragment.visible';
    return end.matches('{SLIDE}') && !end.querySelector(more);
}}"""
CHANGED = f"before => String(({STATE})()) !== String(before)"

# Sizes are in pixels of a 1280×720 screen; on a larger one everything is larger.
TEXT, CODE, EDGE = 24, 18, 8
UNREADABLE = """(slide, [TEXT, CODE, EDGE]) => {
    const px = Math.min(innerWidth / 1280, innerHeight / 720);
    const found = new Set(), say = text => found.add(text);
    const size = length => Math.round(10 * length / px) / 10;
    const parts = [...slide.querySelectorAll(
        '.cm-scroller, .cm-line, .jp-Placeholder, .jp-Placeholder *, .jp-RenderedMarkdown, '
        + '.jp-RenderedMarkdown *, .jp-OutputArea-output, .jp-OutputArea-output *')]
        .filter(part => part.getClientRects().length && !part.closest('mjx-assistive-mml'));

    const boxes = parts.map(part => part.getBoundingClientRect());
    const bottom = Math.max(0, ...boxes.map(box => box.bottom)) + EDGE * px - innerHeight;
    const right = Math.max(0, ...boxes.map(box => box.right)) + EDGE * px - innerWidth;
    if (bottom > 1) say(`${size(bottom)} px too high`);
    if (right > 1) say(`${size(right)} px too wide`);

    const clips = part => getComputedStyle(part).overflowX !== 'visible';
    for (const part of parts.filter(clips)) {
        if (part.scrollWidth > part.clientWidth + 1 || part.scrollHeight > part.clientHeight + 1)
            say(`cut off: "${part.innerText.slice(0, 40)}"`);
    }

    for (const image of slide.querySelectorAll('img')) {
        const [width, height] = ['width', 'height'].map(name => image.getAttribute(name));
        const shown = Math.min(image.clientWidth / width, image.clientHeight / height) / px;
        if (!(shown > 0.99)) say(`a figure at ${shown.toFixed(2)} of its size`);
    }

    const texts = document.createTreeWalker(slide, NodeFilter.SHOW_TEXT), range = new Range();
    for (let node; node = texts.nextNode();) {
        const holder = node.parentElement;
        range.selectNodeContents(node);
        if (!node.data.trim() || !range.getClientRects().length) continue;
        if (holder.closest('mjx-container, sup, sub, .cm-announced, .cm-layer')) continue;
        const least = holder.closest('.cm-editor, pre, code, .jp-OutputArea table') ? CODE : TEXT;
        const actual = size(parseFloat(getComputedStyle(holder).fontSize));
        if (actual < least) say(`${actual} px: "${node.data.trim().slice(0, 40)}"`);
        if (!holder.closest('.jp-OutputArea pre')) continue;
        for (const word of node.data.matchAll(/\\S+/g)) {
            range.setStart(node, word.index);
            range.setEnd(node, word.index + word[0].length);
            const lines = [...range.getClientRects()].map(box => Math.round(box.top));
            if (new Set(lines).size > 1) say(`broken: "${word[0]}"`);
        }
    }
    return [...found];
}"""


def open_slides(page: Page, lab: Lab, name: str) -> None:
    """Open `name` as live slides, at the first one."""
    page.set_viewport_size(SCREENS[0])
    page.goto(lab.url(f"/rise/{name}"))
    page.wait_for_selector(SLIDE)
    page.add_style_tag(content=NO_ANIMATION)
    page.wait_for_function("() => [...document.images].every(image => image.complete)")


def walk(page: Page, key: str = "Space") -> Iterator[str]:
    """Show one slide or fragment after the other; yields the slide's first words each time.

    Shift+Space as `key` walks back.
    """
    state = None
    while state != (now := page.evaluate(STATE)):
        state = now
        yield _first_words(page)
        _step(page, key, state)


def count(page: Page, what: str = ALL_SLIDES) -> int:
    """How many slides there are, or FRAGMENTS."""
    return page.locator(what).count()


def unreadable(page: Page) -> list[str]:
    """What of the slide on the screen an audience could not read."""
    return page.eval_on_selector(SLIDE, UNREADABLE, [TEXT, CODE, EDGE])


def _first_words(page: Page) -> str:
    return " ".join(page.inner_text(SLIDE).split()[:8])


def _step(page: Page, key: str, state: list[int]) -> None:
    """Press `key` and wait for what it shows; nothing at either end, where it leads nowhere."""
    if page.evaluate(AT_AN_END, key == "Space"):
        return
    page.keyboard.press(key)
    page.wait_for_function(CHANGED, arg=state)
