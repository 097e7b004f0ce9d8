"""Takes pictures of a report and checks them: scripts/report-look.sh calls it.

    report-look.py CHROMIUM REPORT.html FOLDER

It speaks Chromium's DevTools protocol over a pipe, so it needs nothing but Python.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

# Width, whether it is a phone's, the medium, the colour scheme.
LOOKS = {
    "light": (1280, False, "screen", "light"),
    "dark": (1280, False, "screen", "dark"),
    # A4 at 96 pixels an inch, without margins.
    "print": (794, False, "print", "light"),
    "phone": (390, True, "screen", "light"),
}

# Returns a line for everything that is wrong.
CHECKS = r"""
(() => {
  const wrong = [], page = document.scrollingElement, width = page.clientWidth;
  const name = e => {
    const text = (e.textContent || '').trim().replace(/\s+/g, ' ').slice(0, 40);
    const kind = e.className && e.className.baseVal !== undefined ? e.className.baseVal : e.className;
    return e.tagName.toLowerCase() + (kind ? '.' + String(kind).split(' ')[0] : '') + (text ? ` "${text}"` : '');
  };
  const shown = e => {
    if (e.checkVisibility && !e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.height > 0;
  };
  const scrolls = e => {
    for (let at = e; at && at !== document.body; at = at.parentElement)
      if (/auto|scroll/.test(getComputedStyle(at).overflowX)) return true;
    return false;
  };
  const hasText = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  const isPlain = e => !/^(SCRIPT|STYLE|TITLE|HEAD|META|LINK|DESC|DEFS|CLIPPATH)$/i.test(e.tagName) && !e.closest('defs,title,desc,head');

  if (page.scrollWidth > width + 1) wrong.push(`the page is ${page.scrollWidth} px wide, ${width} are shown`);
  const elements = [...document.querySelectorAll('body *')].filter(e => isPlain(e) && shown(e));
  for (const e of elements) {
    const box = e.getBoundingClientRect(), inSvg = e.ownerSVGElement;
    if (!inSvg && !scrolls(e) && (box.right > width + 1 || box.left < -1))
      wrong.push(`${name(e)} lies outside: from ${Math.round(box.left)} to ${Math.round(box.right)} of ${width} px`);
    if (!inSvg && e.tagName !== 'svg' && hasText(e)) {
      const style = getComputedStyle(e), cuts = v => /hidden|clip/.test(v);
      if (cuts(style.overflowX) && e.scrollWidth > e.clientWidth + 1) wrong.push(`${name(e)} is cut: ${e.scrollWidth} of ${e.clientWidth} px`);
      if (cuts(style.overflowY) && e.scrollHeight > e.clientHeight + 2) wrong.push(`${name(e)} is cut: ${e.scrollHeight} px high, ${e.clientHeight} are shown`);
    }
    if (e.tagName.toLowerCase() === 'text') {
      let svg = e.ownerSVGElement;
      while (svg.ownerSVGElement) svg = svg.ownerSVGElement;
      const around = svg.getBoundingClientRect();
      if (getComputedStyle(svg).overflow !== 'visible' &&
          (box.left < around.left - 1 || box.right > around.right + 1 || box.top < around.top - 2 || box.bottom > around.bottom + 2))
        wrong.push(`${name(e)} is cut by its picture`);
    }
  }

  for (const svg of document.querySelectorAll('svg')) {
    const labels = [...svg.querySelectorAll('text')].filter(e => shown(e) && isPlain(e) && e.textContent.trim());
    const boxes = labels.map(e => e.getBoundingClientRect());
    for (let i = 0; i < labels.length; i++) for (let j = i + 1; j < labels.length; j++) {
      const a = boxes[i], b = boxes[j];
      const over = Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) * Math.max(0, Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top));
      if (over > 0.25 * Math.min(a.width * a.height, b.width * b.height)) wrong.push(`${name(labels[i])} and ${name(labels[j])} lie over each other`);
    }
  }

  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const colour = text => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = '#000'; canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return { rgb: [r, g, b], alpha: a / 255 };
  };
  const light = rgb => { const [r, g, b] = rgb.map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = e => {
    for (let at = e; at; at = at.parentElement) { const c = colour(getComputedStyle(at).backgroundColor); if (c.alpha > 0.9) return c.rgb; }
    return matchMedia('(prefers-color-scheme: dark)').matches && !matchMedia('print').matches ? [0, 0, 0] : [255, 255, 255];
  };
  const pale = new Map();
  for (const e of elements.filter(hasText)) {
    const style = getComputedStyle(e), inSvg = e.ownerSVGElement !== null && e.ownerSVGElement !== undefined;
    if (inSvg && !/^(text|tspan)$/.test(e.tagName)) continue;
    // What is drawn behind a label in a picture is not known: the page is.
    const front = colour(inSvg ? style.fill : style.color);
    if (front.alpha < 0.5) continue;
    const [a, b] = [light(front.rgb), light(behind(inSvg ? e.closest('svg').parentElement : e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const wanted = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    if (ratio < wanted) pale.set(`${e.tagName}.${front.rgb}`, `${name(e)} hardly stands out: contrast ${ratio.toFixed(1)}, ${wanted} is wanted`);
  }
  return [...wrong, ...pale.values()];
})()
"""


class Browser:
    """Chromium, spoken to over a pipe: messages are JSON, each with a zero byte behind it."""

    def __init__(self, program: str, profile: str) -> None:
        reads, commands = os.pipe()
        answers, writes = os.pipe()

        def place() -> None:
            # The protocol has descriptors 3 and 4; either may be where the other is to go.
            ends = os.dup(reads), os.dup(writes)
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--force-color-profile=srgb", "--font-render-hinting=none", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(3, 4), close_fds=True, preexec_fn=place,
        )  # fmt: skip
        os.close(reads)
        os.close(writes)
        self.commands = commands
        self.answers = os.fdopen(answers, "rb")
        self.pending = b""
        self.number = 0
        self.session: str | None = None
        self.events: list[str] = []

    def read(self) -> dict[str, Any]:
        while b"\0" not in self.pending:
            more = self.answers.read1(1 << 20)
            if not more:
                raise SystemExit("report-look.py: Chromium has ended")
            self.pending += more
        message, self.pending = self.pending.split(b"\0", 1)
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        unsent = memoryview(json.dumps(message).encode() + b"\0")
        while unsent:
            unsent = unsent[os.write(self.commands, unsent) :]
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise SystemExit(f"report-look.py: {method}: {answer['error']['message']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer.get("method", ""))

    def wait_for(self, event: str) -> None:
        while event not in self.events:
            self.events.append(self.read().get("method", ""))
        self.events.clear()

    def evaluate(self, expression: str) -> Any:
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise SystemExit(f"report-look.py: {answer['exceptionDetails']}")
        return answer["result"].get("value")


def look(browser: Browser, report: Path, folder: Path) -> list[str]:
    target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
    browser.session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    browser.ask("Page.enable")
    wrong = []
    for name, (width, is_phone, medium, scheme) in LOOKS.items():
        browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=is_phone)
        browser.ask("Emulation.setEmulatedMedia", media=medium, features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.events.clear()
        browser.ask("Page.navigate", url=report.as_uri())
        browser.wait_for("Page.loadEventFired")
        # What is folded away is a part of it.
        browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true); document.fonts.ready.then(() => 1)")
        browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        size = browser.ask("Page.getLayoutMetrics")["cssContentSize"]
        # Pictures have a height that a viewer can show.
        clip = {"x": 0, "y": 0, "width": max(width, size["width"]), "height": min(size["height"], 16000), "scale": 1}
        picture = browser.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        path = folder / f"{report.parent.name}-{name}.png"
        path.write_bytes(base64.b64decode(picture))
        found = browser.evaluate(CHECKS)
        print(f"{name:6} {path}  {int(size['width'])} x {int(size['height'])}  {len(found)} wrong")
        wrong += [f"{report.parent.name}, {name}: {line}" for line in found]
    return wrong


def main() -> int:
    program, report, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            wrong = look(browser, report, folder)
        finally:
            browser.process.kill()
            browser.process.wait()
    for line in wrong[:60]:
        print(line, file=sys.stderr)
    if len(wrong) > 60:
        print(f"... and {len(wrong) - 60} more", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
