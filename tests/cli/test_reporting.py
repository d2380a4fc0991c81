"""`bayesnn report`, `bayesnn watch` and `bayesnn gallery`."""

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

import bayesnn_ppl as bnn
from bayesnn_ppl.cli import main
from bayesnn_ppl.cli.shared.page_server import Watched, serve
from bayesnn_ppl.report.parts.subject import Subject
from bayesnn_ppl.storage.commits import empty_record, read_commit
from tests.report.browser import asked_for, browser, console_errors, fits


def test_a_run_and_the_command_that_repeats_it(linear_run, tmp_path, capsys):
    out = tmp_path / "page.html"
    assert main(["report", str(linear_run), "--out", str(out), "--gradients", "0"]) == 0
    shown = capsys.readouterr().out
    assert f"Wrote the report to {out}" in shown and "linear: " in shown
    page = out.read_text()
    assert f"bayesnn sample hmc linear --out {linear_run} --quiet" in page
    assert "linear on diabetes" in page and "disease progression" in page
    line = ["report", str(linear_run), "--out", str(out), "--gradients", "0", "--json"]
    assert main(line) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes"] == out.stat().st_size and told["runs"].keys() == {"linear"}


def test_a_model_of_ones_own_is_judged_by_what_it_kept(own_run, here, capsys):
    assert main(["report", own_run]) == 0
    kept = (here / own_run / "report.html").read_text()
    assert "Compared with simple methods" not in kept
    line = ["report", own_run, "--model", "my_model.py", "--gradients", "5"]
    assert main(line) == 0
    full = (here / own_run / "report.html").read_text()
    assert "Compared with simple methods" in full and "Standard deviation among" in full


def test_what_is_refused(linear_run, wine_run, here, capsys):
    for line, sentence in (
        ([str(linear_run), str(wine_run)], "Only runs of the same data can be compared"),
        ([str(linear_run), "--out", "page.pdf"], "A page is written to a file"),
        ([str(linear_run), "--out", "nowhere/page.html"], "its folder does not exist"),
        ([str(linear_run), "--model", "my_model.py"], "--model does not apply"),
        (["nothing"], "There is no run at `nothing`"),
    ):
        assert main(["report", *line]) == 1
        assert sentence in capsys.readouterr().err
    assert main(["watch", str(linear_run), "--port", "99999"]) == 1
    assert "The port 99999 cannot be used" in capsys.readouterr().err
    assert main(["gallery", "page.pdf"]) == 1 and main(["gallery", "no/page.html"]) == 1
    assert main(["gallery", "page.html", "--targets", "moon"]) == 1
    assert "`moon` is unknown" in capsys.readouterr().err


def test_the_page_is_rebuilt_only_after_a_commit(tmp_path):
    """Half of a run, a look, the other half, and a look again."""
    data, kernel = bnn.data.load("diabetes"), bnn.kernels.HMC(bnn.models.linear(), num_leapfrogs=3)
    folder = tmp_path / "run"
    quiet = {"seed": 0, "progress": False, "chains": 2}
    bnn.sample(
        kernel,
        *data.train,
        warmup=10,
        draws=10,
        out=folder,
        keep=bnn.Keep(probe=data.test),
        **quiet,
    )
    made = []

    def subject():
        made.append(read_commit(folder)["draws"])
        return Subject("run", "run0", bnn.load(folder))

    watched = Watched(folder, "run", subject)
    first = watched.page()
    assert watched.page() is first and made == [10]
    assert watched.state()["commit"] == watched.state()["shown"]
    bnn.extend(folder, kernel, *data.train, draws=10, progress=False)
    assert watched.state()["commit"] != watched.state()["shown"]
    watched._next = 0.0  # as if it had rested
    assert watched.page() != first and made == [10, 20]


def test_before_the_first_draw_there_is_a_page_too(linear_run, tmp_path):
    folder = tmp_path / "young"
    folder.mkdir()
    record = empty_record() | {"done": 7}
    (folder / "commit.json").write_text(json.dumps(record))
    (folder / "config.json").write_text((linear_run / "config.json").read_text())
    (folder / "metrics.csv").write_text("phase,draws,lp\nwarmup,7,-3.5\n")
    page = Watched(folder, "young", lambda: pytest.fail("nothing can be loaded yet")).page()
    assert "7 of 20 draws of the phase <code>warmup</code>" in page and "-3.5" in page


def test_watch_serves_this_machine_and_ends_on_ctrl_c(linear_run):
    command = [sys.executable, "-m", "bayesnn_ppl.cli", "watch", str(linear_run), "--port", "0"]
    process = subprocess.Popen([*command, "--json"], stdout=subprocess.PIPE, text=True)
    try:
        lines = ""
        for line in process.stdout:
            lines += line
            if line.startswith("}"):
                break
        address = json.loads(lines)["address"]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}state") as answer:
            assert json.load(answer)["complete"] is True
        with urllib.request.urlopen(address) as answer:
            assert b"Verdict" in answer.read()
        with browser() as driver:
            from selenium.webdriver.support.ui import WebDriverWait

            asked_for(driver)  # what the browser asked for at its start
            driver.get(address)
            WebDriverWait(driver, 60).until(
                lambda _: "The run is complete" in driver.find_element("id", "progress").text
            )
            assert console_errors(driver) == [] and fits(driver)
            others = [u for u in asked_for(driver) if not u.startswith((address, "data:"))]
            assert others == []
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        process.stdout.close()


def test_watch_ends_on_ctrl_c_where_a_script_started_it_in_the_background(tmp_path, monkeypatch):
    """With `&` in a script that is not interactive, SIGINT is inherited as ignored."""
    (tmp_path / "commit.json").write_text(json.dumps(empty_record()))
    place = "bayesnn_ppl.cli.shared.page_server.ThreadingHTTPServer.serve_forever"
    monkeypatch.setattr(place, lambda self, poll_interval: time.sleep(60))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        began, watched = time.monotonic(), Watched(tmp_path, "run", lambda: None)
        timer = threading.Timer(
            0.5, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        )
        serve(watched, port=0, started=lambda address: timer.start())
        assert time.monotonic() - began < 30
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_page_whose_files_are_replaced_meanwhile_is_made_of_the_next_commit(
    tmp_path, monkeypatch
):
    def commit(done):
        record = empty_record() | {"done": done}
        (tmp_path / "commit.json").write_text(json.dumps(record))

    commit(7)
    watched, seen = Watched(tmp_path, "run", lambda: None), []

    def made(record):
        seen.append(record["done"])
        if record["done"] == 7:
            commit(8)
            raise ValueError("its files are gone")
        if record["done"] == 9:
            raise ValueError("it is damaged")
        return f"page {record['done']}"

    monkeypatch.setattr(watched, "_made", made)
    assert watched.page() == "page 8" and seen == [7, 8]
    assert watched.state()["shown"] == watched.state()["commit"]
    commit(9)
    watched._next = 0.0
    with pytest.raises(ValueError, match="it is damaged"):  # nothing has been committed since
        watched.page()
