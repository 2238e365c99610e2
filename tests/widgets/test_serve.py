"""The page of the dashboard alone, on the server that `make dashboard` starts, asked over HTTP and websockets.

Property    it listens on loopback only and answers clients with its token, under the names of loopback; kernels are few,
            and one whose page is gone makes room
Oracle      the kernel's table of open ports; the server's own list of kernels
This cannot see what a browser makes of the page: tests/browser/test_voila.py.
"""

import json
import os
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import nbformat
import pytest
import websocket

from headrace_widgets.serve import IDLE_S, MOST_KERNELS
from open_ports import family, open_ports
from support.workloads import eventually

EVIL = "evil.example"


class Server:
    """Its address, its token, and the two ways of asking it."""

    def __init__(self, process, place, token, said):
        self.process, self.place, self.token, self.said = process, place, token, said

    def ask(self, path, token=None, host=None, method="GET"):
        """Give (status, text); a client without a token is redirected to a page that asks for it: redirects are not followed."""
        headers = {"Host": host or self.place} | ({"Authorization": f"token {token}"} if token else {})
        request = urllib.request.Request(f"http://{self.place}{path}", headers=headers, method=method)
        try:
            with _STAYING.open(request, timeout=100) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def kernels(self):
        return {one["id"] for one in json.loads(self.ask("/api/kernels", self.token)[1])}

    def start_kernel(self):
        status, text = self.ask("/api/kernels", self.token, method="POST")
        return status, json.loads(text)["id" if status == 201 else "message"]

    def cookie(self):
        """What a browser keeps once it has been let in: it sends it whatever page asks it to, so the origin counts."""
        with urllib.request.urlopen(f"http://{self.place}/api/status?token={self.token}", timeout=100) as answer:
            return "; ".join(one.partition(";")[0] for one in answer.headers.get_all("Set-Cookie"))

    def connect(self, kernel, header=(), origin=None, host=None):
        return websocket.create_connection(
            f"ws://{self.place}/api/kernels/{kernel}/channels", timeout=60, origin=origin or f"http://{self.place}",
            host=host or self.place, header=dict(header),
        )  # fmt: skip


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


pytestmark = pytest.mark.slow  # a process of Jupyter Server
_STAYING = urllib.request.build_opener(_Stay)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    cell = nbformat.v4.new_code_cell("print('six times seven is', 6 * 7)")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=kernel), folder / "a page.ipynb")
    (folder / "picture.png").write_bytes(b"secret")
    state = {f"JUPYTER_{name}_DIR": str(folder / ".state" / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace_widgets.serve", str(folder / "a page.ipynb"), "--no-browser", "--port=0"],
        env={**os.environ, **state, "PYTHONPATH": path}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    stuck = threading.Timer(300, process.kill)
    stuck.start()
    said, address = [], None
    for line in process.stdout:
        said.append(line)
        if address := re.search(r"http://(127\.0\.0\.1:\d+)/voila/render/a%20page\.ipynb\?token=(\w{20,})", line):
            break
    stuck.cancel()  # from here on every wait has an end of its own
    reader = threading.Thread(target=lambda: said.extend(process.stdout), daemon=True)
    reader.start()
    try:
        assert address, said
        server = Server(process, *address.groups(), said)

        def is_up():
            try:
                return server.ask("/api/status", server.token)[0] == 200
            except urllib.error.URLError:
                return False  # it says its address a moment before it listens

        eventually(is_up, 180)
        yield server
    finally:
        members = family(process.pid)
        process.terminate()
        try:
            process.wait(180)
        finally:
            for each in members:
                try:
                    os.kill(each, 9)
                except ProcessLookupError:
                    continue
            process.wait(180)
            reader.join(180)
            process.stdout.close()


PAGE = "/voila/render/a%20page.ipynb"


def test_example_only_with_the_token(server):
    assert server.ask(PAGE)[0] == 302  # to the page that asks for the token
    assert server.ask(PAGE, "guessed")[0] == 302
    for path in ("/api/kernels", "/api/contents", "/voila/api/contents"):
        assert server.ask(path)[0] == 403, path
    assert server.ask("/api/kernels", method="POST")[0] == 403
    assert server.ask("/voila/files/picture.png")[0] == 403  # Voila's own file server asks nobody for a token
    assert server.kernels() == set()


def test_example_only_by_the_names_of_loopback(server):
    for path in (PAGE, "/api/kernels", "/voila/tree"):
        assert server.ask(path, server.token, host=EVIL)[0] == 403, path
    assert server.ask("/api/kernels", server.token, host="localhost")[0] == 200
    assert server.kernels() == set()


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads the Linux kernel's tables")
def test_example_loopback_only(server):
    inside, outside = open_ports(server.process.pid)
    port = int(server.place.rpartition(":")[2])
    assert f"0100007F:{port:04X}" in inside and outside == []


def test_example_the_page_and_a_limit_to_kernels(server):
    """One after the other on one server: what comes later needs the kernels that came before."""
    status, text = server.ask(PAGE, server.token)
    assert status == 200 and "six times seven is 42" in text and "6 * 7" not in text
    (of_page,) = server.kernels()
    others = [server.start_kernel()[1] for _ in range(MOST_KERNELS - 1)]
    assert server.kernels() == {of_page, *others}

    # Nobody has left: there is no room, for a page no more than for a kernel.
    status, why = server.start_kernel()
    assert status == 503 and f"{MOST_KERNELS} dashboards are open" in why
    status, text = server.ask(PAGE, server.token)
    assert status == 503 and "close one of their pages first" in text
    assert server.kernels() == {of_page, *others}

    browser, script = {"Cookie": server.cookie()}, {"Authorization": f"token {server.token}"}
    for who, origin, host in (({}, None, None), (browser, f"http://{EVIL}", None), (script, None, EVIL)):
        with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
            server.connect(of_page, who, origin, host)

    # A page that is connected stays; the one that left makes room.
    stays = server.connect(others[0], browser)
    server.connect(of_page, script).close()
    new = None

    def has_room():
        nonlocal new
        status, new = server.start_kernel()
        return status == 201

    eventually(has_room, 180)
    assert server.kernels() == {*others, new}
    stays.close()
    eventually(has_room, 180)
    assert others[0] not in server.kernels() and len(server.kernels()) == MOST_KERNELS
    assert any(f"Culling kernels with idle durations > {IDLE_S} seconds" in line for line in server.said)


def test_example_a_notebook_that_is_not_there(capfd):
    from headrace_widgets import serve

    with pytest.raises(SystemExit, match="2"):
        serve.main(["nowhere.ipynb"])
    assert "notebook 'nowhere.ipynb': there is no such file" in capfd.readouterr().err
