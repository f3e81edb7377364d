"""Every notebook in a real browser: as its author saved it, run, explored, and as slides."""

from difflib import unified_diff

import pytest

from tests.browser import explorers, lab_page, slides


def test_it_shows_its_saved_figures_and_no_pop_up(opened):
    for index, cell in enumerate(opened.cells):
        expected = sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))
        images = lab_page.cells(opened.page).nth(index).locator(".jp-RenderedImage img")
        widths = images.evaluate_all("images => images.map(image => image.naturalWidth)")
        assert len(widths) == expected and all(widths), f"cell {index}: {cell.source[:60]}"
        if expected and "solution" not in cell.metadata.get("tags", []):
            assert images.first.is_visible()
    assert_none(opened.page.locator(lab_page.POP_UP).all_text_contents())


def test_saving_it_untouched_changes_nothing(opened):
    before = opened.file.stat().st_mtime_ns
    lab_page.save(opened.page)
    assert opened.file.stat().st_mtime_ns > before
    saved = opened.file.read_text(encoding="utf-8")
    assert_none([*unified_diff(opened.fresh.splitlines(), saved.splitlines(), lineterm="")])
    assert saved == opened.fresh


def test_run_all_ends_without_errors(ran):
    assert_none(lab_page.texts(ran.page, "application/vnd.jupyter.error"))
    assert_none(lab_page.texts(ran.page, "application/vnd.jupyter.stderr"))
    assert ran.page.get_by_text("Error displaying widget").count() == 0


def test_explorers_answer_the_keyboard(ran):
    shown = [cell for cell in ran.cells if cell.source.startswith("explore.")]
    assert explorers.count(ran.page) >= len(shown)
    assert_none(explorers.failures(ran.page))


def test_every_slide_can_be_read_on_small_and_large_screens(ran):
    lab_page.save(ran.page)
    page = ran.page.context.new_page()
    slides.open_slides(page, ran.lab, ran.file.name)
    steps = slides.count(page) + slides.count(page, slides.FRAGMENTS)
    assert slides.count(page, slides.FRAGMENTS) > 0
    for screen, key in zip(slides.SCREENS, ("Space", "Shift+Space"), strict=True):
        page.set_viewport_size(screen)
        walked = [(words, slides.unreadable(page)) for words in slides.walk(page, key)]
        assert_none([f"{words}: {', '.join(found)}" for words, found in walked if found])
        assert len(walked) == steps


def assert_none(found: list[str]) -> None:
    """Fail with every line that was found."""
    if found:
        pytest.fail("\n".join(found), pytrace=False)
