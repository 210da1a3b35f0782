"""A real Chromium, driven through its own debugging pipe: pages are opened, keys pressed, numbers read, pictures
taken."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE = 60.0
KEYS = {
    "Enter": ("Enter", 13, "\r"),
    "Space": (" ", 32, " "),
    "ArrowRight": ("ArrowRight", 39, ""),
    "Tab": ("Tab", 9, ""),
}


class Browser:
    """One browser with one page at a time. `complaints` has every console error and exception since `open`."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        (there, self._out), (self._in, back) = os.pipe(), os.pipe()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 64) for end in (there, back)]  # out of the way of 3 and 4

        def ends() -> None:
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self._process = subprocess.Popen(
            [
                CHROMIUM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--remote-debugging-pipe",
                "--no-first-run",
                "--hide-scrollbars",
                f"--user-data-dir={profile}",
            ],
            preexec_fn=ends,
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (there, back, *high):
            os.close(end)
        os.set_blocking(self._in, False)
        self._ids, self._rest = itertools.count(1), b""
        self._waiting: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        self._session: str | None = None

    def close(self) -> None:
        """End the browser."""
        try:
            os.write(self._out, json.dumps({"id": 0, "method": "Browser.close"}).encode() + b"\0")
            self._process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(20)
        os.close(self._out)
        os.close(self._in)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            try:
                found = os.read(self._in, 1 << 20)
                assert found, "the browser has ended"
                self._rest += found
            except BlockingIOError:
                assert time.monotonic() < deadline, "the browser does not answer"
                time.sleep(0.005)
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(message["params"]["exceptionDetails"])[:500])
            case "Runtime.consoleAPICalled" | "Log.entryAdded":
                self.complaints.append(json.dumps(message["params"])[:500])
        return message

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """One command, and its answer."""
        number, deadline = next(self._ids), time.monotonic() + PATIENCE
        asked: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            asked["sessionId"] = self._session
        data = json.dumps(asked).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            message = self._message(deadline)
            if message.get("id") == number:
                assert "error" not in message, message
                answer: dict[str, Any] = message["result"]
                return answer
            self._waiting.append(message)

    def open(
        self, page: Path, *, width: int = 1280, height: int = 900, dark: bool = False, phone: bool = False
    ) -> None:
        """Open a file on a screen of this size, light or dark, and wait until it has loaded."""
        self._session = None
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.send(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.complaints.clear()
        self._waiting.clear()
        self.send("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + PATIENCE
        while not any(message.get("method") == "Page.loadEventFired" for message in self._waiting):
            self._waiting.append(self._message(deadline))

    def run(self, script: str) -> Any:
        """The value of an expression, or of a function's body with a `return` in it, promises awaited."""
        body = script if script.lstrip().startswith("(") else f"(async () => {{{script}}})()"
        found = self.send("Runtime.evaluate", expression=body, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press and let go of a key, as a keyboard does."""
        name, code, text = KEYS[key]
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=name,
                code=key,
                windowsVirtualKeyCode=code,
                text=text if kind == "keyDown" else "",
            )

    def click(self, selector: str) -> None:
        """Click in the middle of an element with the mouse."""
        x, y = (
            self.run(f"""const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: "center"}});
          const box = e.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2];""")
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self, file: Path, *, selector: str = "") -> None:
        """A picture of the whole page, or of one element."""
        where = f"document.querySelector({json.dumps(selector)})" if selector else "document.documentElement"
        box = self.run(f"""const box = {where}.getBoundingClientRect();
          return [box.x + scrollX, box.y + scrollY, box.width, box.height];""")
        clip = dict(zip(("x", "y", "width", "height"), box, strict=True)) | {"scale": 1}
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(shot["data"]))
