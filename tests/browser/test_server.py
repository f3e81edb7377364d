"""The server that `make lab` starts: this machine only, token on, one for Lab and slides."""

import urllib.error
import urllib.request
import webbrowser

import psutil
import pytest

from course_utils.workshop.lab import open_running
from tests.browser.server import TOKEN


def test_without_the_token_nothing_is_served(lab):
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{lab.address}/api/contents")


def test_it_listens_on_this_machine_only(lab):
    port = int(lab.address.rpartition(":")[2])
    connections = psutil.net_connections("inet")
    listening = {c.laddr.ip for c in connections if c.laddr.port == port and c.status == "LISTEN"}
    assert listening == {"127.0.0.1"}


def test_slides_open_in_the_lab_that_runs(lab, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(lab.workbook.parent / "runtime"))
    assert open_running(lab.workbook, "/rise/00_start_here.ipynb")
    assert opened == [f"{lab.address}/rise/00_start_here.ipynb?token={TOKEN}"]
    assert not open_running(tmp_path, "/rise/00_start_here.ipynb")
