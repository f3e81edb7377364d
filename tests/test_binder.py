"""Binder's files: the tested versions, CPU wheels only, and used by repo2docker."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course_utils.workshop import workbook
from course_utils.workshop.files import REPOSITORY, chapters

BINDER = REPOSITORY / "binder"
CPU_INDEX = "--extra-index-url https://download.pytorch.org/whl/cpu"


def requirements(file: Path) -> list[str]:
    lines = (line.strip() for line in file.read_text().splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def test_binder_pins_what_was_tested():
    every = requirements(REPOSITORY / "requirements.txt")
    tested = [line for line in every if not line.startswith("nvidia-ml-py==")]  # no GPU there
    on_binder = requirements(BINDER / "requirements.txt")
    assert on_binder[0] == CPU_INDEX
    assert [line.replace("+cpu", "") for line in on_binder[1:]] == tested


def test_every_requirement_is_pinned():
    assert all("==" in line for line in requirements(REPOSITORY / "requirements.txt")[:-1])
    assert requirements(REPOSITORY / "requirements.txt")[-1] == "-e ."


def test_binder_asks_for_no_cuda():
    text = (BINDER / "requirements.txt").read_text()
    assert re.search(r"^torch==[\d.]+\+cpu$", text, re.MULTILINE)
    assert not re.search("nvidia|triton|cuda|cu1", text, re.IGNORECASE)


@pytest.fixture(scope="module")
def dockerfile() -> str:
    command = [sys.executable, "-m", "repo2docker", "--no-build", "--debug", "."]
    run = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600)
    assert run.returncode == 0, run.stderr
    return run.stdout + run.stderr


def test_repo2docker_installs_from_the_top_folder(dockerfile):
    lines = dockerfile.splitlines()
    install = next(i for i, line in enumerate(lines) if '-r "binder/requirements.txt"' in line)
    assert "WORKDIR ${REPO_DIR}" in lines[:install]  # so "-e ." is the course's package
    assert any(re.match("COPY .* src/ ", line) for line in lines[:install])


def test_repo2docker_takes_our_python_and_post_build(dockerfile):
    copied = dockerfile.replace("-2e", ".").replace("-2d", "-")  # as repo2docker spells paths
    assert "environment.py-3.11-" in copied
    assert "RUN ./binder/postBuild" in dockerfile
    assert 'ENV R2D_ENTRYPOINT="${REPO_DIR}/binder/start"' in dockerfile


@pytest.fixture(scope="module")
def image(tmp_path_factory) -> Path:
    """The repository as it lies in the image, and what its postBuild made of it."""
    place = tmp_path_factory.mktemp("image")
    for folder in ("binder", "notebooks", "course_utils/workshop/settings"):
        shutil.copytree(REPOSITORY / folder, place / folder)
    path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment = os.environ | {"NB_PYTHON_PREFIX": str(place / "python")} | path
    command = [place / "binder" / "postBuild"]
    run = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return place


def test_post_build_silences_the_news(image):
    overrides = image / "python/share/jupyter/lab/settings/overrides.json"
    assert '"fetchNews": "false"' in overrides.read_text()


def test_the_image_has_the_notebooks_as_the_workbook_has_them(image, tmp_path):
    workbook.refresh(tmp_path)
    for chapter in chapters():
        built = (image / "notebooks" / chapter.name).read_text("utf-8")
        assert built == (tmp_path / chapter.name).read_text("utf-8")
        cells = nbformat.reads(built, as_version=4).cells
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def test_what_is_started_in_the_image_keeps_the_progress_in_the_top_folder(image, tmp_path):
    command = [image / "binder" / "start", "printenv", "COURSE_PROGRESS"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.stdout == f"{image / 'progress.json'}\n"
