"""Debian's Chromium without a window, driven over its own DevTools protocol: no driver, no package.

async with Browser() as browser:
    await browser.open(url)
    await browser.until("document.body.dataset.state === 'live'")
    assert [] == browser.complaints
"""

import asyncio
import base64
import itertools
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import aiohttp

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
ABSENT = "chromium is not installed; .ci/run installs Debian's"
START_S = 30.0
WAIT_S = 10.0
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # CI runs as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)


class Browser:
    """One page. `complaints` holds what the console and the page's scripts complained about, `hosts` who was asked."""

    def __init__(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self._size = (width, height)
        self._dark = dark
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._loaded = asyncio.Event()

    async def __aenter__(self) -> Self:
        assert PROGRAM is not None
        self._folder = tempfile.mkdtemp(prefix="dragoman-browser-")
        self._process = await asyncio.create_subprocess_exec(
            PROGRAM,
            *FLAGS,
            f"--user-data-dir={self._folder}",
            "about:blank",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self._session = aiohttp.ClientSession()
        port = await self._port()
        async with self._session.get(f"http://127.0.0.1:{port}/json/list") as reply:
            [page] = [one for one in await reply.json() if one["type"] == "page"]
        self._socket = await self._session.ws_connect(page["webSocketDebuggerUrl"], max_msg_size=2**26)
        self._reader = asyncio.create_task(self._read())
        for domain in ("Page", "Runtime", "Network", "Log"):
            await self.call(f"{domain}.enable")
        await self.resize(*self._size)
        await self.paint(dark=self._dark)
        return self

    async def _port(self) -> int:
        file = Path(self._folder) / "DevToolsActivePort"
        end = time.monotonic() + START_S
        while not (file.exists() and file.read_text().count("\n")):
            assert time.monotonic() < end, "chromium did not start"
            await asyncio.sleep(0.02)
        return int(file.read_text().splitlines()[0])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._socket.close()
        await self._session.close()
        self._process.kill()
        await self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _read(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" in told:
                self._waiting.pop(told["id"]).set_result(told)
            else:
                self._note(told["method"], told["params"])

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.hosts.add(urlsplit(told["request"]["url"]).netloc)
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"].get("exception", told["exceptionDetails"])))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(f"{told['entry']['text']} {told['entry'].get('url', '')}")
        elif method == "Page.loadEventFired":
            self._loaded.set()

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._ids)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        told = await asyncio.wait_for(future, WAIT_S)
        assert "error" not in told, told
        result: dict[str, Any] = told["result"]
        return result

    async def open(self, url: str) -> None:
        self._loaded.clear()
        await self.call("Page.navigate", url=url)
        await asyncio.wait_for(self._loaded.wait(), WAIT_S)

    async def eval(self, script: str) -> Any:
        told = await self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told
        return told["result"].get("value")

    async def until(self, script: str, within_s: float = WAIT_S) -> Any:
        """Wait until an expression is true, and return it."""
        end = time.monotonic() + within_s
        while not (value := await self.eval(script)):
            assert time.monotonic() < end, f"never: {script}"
            await asyncio.sleep(0.03)
        return value

    async def press(self, key: str) -> None:
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowRight": 39}
        for kind in ("keyDown", "keyUp"):
            sent = text if kind == "keyDown" else {}
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes.get(key, 0), **sent
            )

    async def type(self, text: str) -> None:
        await self.call("Input.insertText", text=text)

    async def resize(self, width: int, height: int) -> None:
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    async def paint(self, *, dark: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self, path: Path, *, whole: bool = True) -> None:
        """Write a screenshot."""
        told = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(told["data"]))
