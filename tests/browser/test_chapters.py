"""Every notebook in a real browser: fresh, saved, run, explored, and as slides."""

import nbformat

from tests.browser import explorers, lab_page, slides


def test_unrun_it_shows_its_figures_and_no_pop_up(opened):
    notebook = nbformat.read(opened.source, as_version=4)
    for index, cell in enumerate(notebook.cells):
        expected = sum("image/png" in output.get("data", {}) for output in cell.get("outputs", []))
        images = lab_page.cells(opened.page).nth(index).locator(".jp-RenderedImage img")
        widths = images.evaluate_all("images => images.map(image => image.naturalWidth)")
        assert len(widths) == expected and all(widths), f"cell {index}: {cell.source[:60]}"
        if expected and "solution" not in cell.metadata.get("tags", []):
            assert images.first.is_visible()
    assert opened.page.locator(lab_page.POP_UP).all_text_contents() == []


def test_saving_it_untouched_changes_nothing(opened):
    lab_page.save(opened.page, opened.file)
    assert opened.file.read_bytes() == opened.source.read_bytes()


def test_run_all_ends_without_errors(ran):
    assert lab_page.texts(ran.page, "application/vnd.jupyter.error") == []
    assert lab_page.texts(ran.page, "application/vnd.jupyter.stderr") == []
    assert ran.page.get_by_text("Error displaying widget").count() == 0


def test_explorers_answer_the_keyboard(ran):
    assert explorers.failures(ran.page) == []


def test_slides_fit_the_screen(ran):
    lab_page.save(ran.page, ran.file)
    page = ran.page.context.new_page()
    slides.open_slides(page, ran.lab, ran.source.name)
    walked = [(words, slides.too_big(page)) for words in slides.walk(page)]
    assert [f"{words}: {', '.join(found)}" for words, found in walked if found] == []
    assert len(walked) == slides.count(page)
