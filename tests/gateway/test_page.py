"""The status page in a real browser: what it shows, how it follows, what it never does."""

import asyncio
import re
from contextlib import asynccontextmanager

import msgspec
import pytest

from gateway import page
from gateway.config import Log
from gateway.lifecycle import bind, listen
from gateway.record import OUTCOMES, Record
from gateway.telemetry import Telemetry
from providers.secret import Secret
from tests import browser
from tests.browser import Browser
from tests.gateway.live import CLIENT_KEY, config, provider, running
from tests.streams import Say, Turn, chat
from tests.upstream import Head, Upstream, Wait, closed_port, reply_json, sse

ADMIN_KEY = "admin-key-for-tests-0001"
DEAD = f"http://127.0.0.1:{closed_port()}"
LIVE = "document.body.dataset.state === 'live'"
ROWS = "[...document.querySelectorAll('tr.entry')].map((row) => row.record.request_id)"

needs_browser = pytest.mark.skipif(browser.PROGRAM is None, reason=browser.ABSENT)
DONE = Record(
    ts="2026-01-01T10:20:30.000Z",
    client="alice",
    dialect="chat",
    alias="m1",
    provider="up",
    upstream_model="up-m",
    outcome="complete",
    input_tokens=1200,
    cached_tokens=600,
    cache_ratio=0.5,
    output_tokens=34,
    first_meaning_ms=400,
    duration_ms=1500,
)


def told(live, request_id: str, **changes) -> None:
    """Let the gateway tell of a request that ended."""
    record = msgspec.structs.replace(DONE, request_id=request_id, **changes)
    (live.listening.gateway if hasattr(live, "listening") else live).watchers.told(record, "m1")


def at(name: str) -> str:
    return f"document.getElementById('{name}')"


def text(name: str) -> str:
    return f"{at(name)}.innerText"


# ---------------------------------------------------------------- without a browser


async def test_browsers_get_the_page_and_others_a_line():
    """GET / follows Accept; HEAD stays cheap."""
    async with running(config(provider(DEAD))) as live:
        shown = await live.ask("GET", "/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        plain = await live.ask("GET", "/", headers={"accept": "*/*"})
        head = await live.ask("HEAD", "/", headers={"accept": "text/html"})
    assert (200, "text/html; charset=utf-8") == (shown.status, shown.headers["content-type"])
    assert (200, b"Dragoman is running") == (plain.status, plain.body[:19])
    assert (200, b"") == (head.status, head.body)


async def test_nothing_else_may_load_or_run():
    """The policy allows our own files alone, no inline code, no frames, no forms."""
    async with running(config(provider(DEAD))) as live:
        for path in ("/", *(f"/web/{name}" for name in page.FILES)):
            headers = (await live.ask("GET", path, headers={"accept": "text/html"})).headers
            policy = headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert ("nosniff", "no-referrer") == (headers["x-content-type-options"], headers["referrer-policy"])


async def test_files_are_not_sent_twice():
    """A browser that has a file is told so."""
    async with running(config(provider(DEAD))) as live:
        first = await live.ask("GET", "/web/page.js")
        again = await live.ask("GET", "/web/page.js", headers={"if-none-match": first.headers["etag"]})
    assert (200, 304, b"") == (first.status, again.status, again.body)
    assert first.headers["content-type"].startswith("text/javascript")


@pytest.mark.promise("S05")
@pytest.mark.parametrize(
    "path", ["/web/", "/web/none.js", "/web/../app.py", "/web/%2e%2e/app.py", "/web/page.js/", "/web/index.html?x"]
)
async def test_only_listed_files_are_served(path):
    """No path reaches a file that the table does not name."""
    async with running(config(provider(DEAD))) as live:
        reply = await live.ask("GET", path)
        assert reply.status == (200 if path.startswith("/web/index.html") else 401)


def test_the_page_has_no_inline_code_and_names_no_host():
    """Nothing in the files needs a looser policy or another server."""
    for name, (content, _, _) in page.FILES.items():
        source = content.decode()
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", source), name
        assert not re.search(r"innerHTML|insertAdjacentHTML|outerHTML|document\.write|eval\(|new Function", source), (
            name
        )
    html = page.FILES["index.html"][0].decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", html)


def test_the_page_knows_every_outcome():
    """The filter offers what the record can say."""
    source = page.FILES["page.js"][0].decode()
    assert list(OUTCOMES) == re.findall(r'"(\w+)"', source.split("const OUTCOMES = [")[1].split("]")[0])


# ---------------------------------------------------------------- in a browser


@needs_browser
@pytest.mark.slow
async def test_the_page_follows_requests():
    """Empty at first; then a request appears by itself, with its numbers, and a click shows the rest of it."""
    async with Upstream([sse(chat(Turn([Say("Good morning, all.")])))]) as upstream:
        async with running(config(provider(upstream.url))) as live, Browser() as shown:
            await shown.open(live.url)
            await shown.until(LIVE)
            assert "No requests yet" in await shown.eval(text("empty"))
            assert f"{live.url}/v1" in await shown.eval(text("empty"))
            await live.send("chat")
            [record] = await live.records()
            await shown.until(f"{ROWS}.length === 1")
            assert [record["request_id"]] == await shown.eval(ROWS)
            line = await shown.eval("document.querySelector('tr.entry').innerText")
            for part in ("complete", "alice", "m1", "up/up-m", "11", "27 %", "7"):
                assert part in line
            await shown.eval("document.querySelector('tr.entry .open').click()")
            details = await shown.eval("document.querySelector('tr.detail').innerText")
            for part in (record["request_id"], "k1", "upstream dialect", "overhead"):
                assert part in details
            await shown.until(f"{at('tiles')}.innerText.includes('27 % from cache')")
            assert [] == shown.complaints
            assert {live.url.removeprefix("http://")} == shown.hosts


@needs_browser
@pytest.mark.slow
async def test_the_page_shows_keys_and_streams_as_they_are():
    """A resting key counts down, a stream in flight grows older, and is gone when it ended."""
    go = asyncio.Event()
    limited = reply_json(
        {"error": {"message": "Rate limit reached", "type": "rate_limit_error"}}, 429, headers=[("retry-after", "754")]
    )
    frames = chat(Turn([Say("Good morning, all.")]))
    async with Upstream([limited, [Head(), *frames[:3], Wait(go), *frames[3:]]]) as upstream:
        async with running(config(provider(upstream.url, keys=2))) as live, Browser() as shown:
            answer = asyncio.create_task(live.send("chat"))
            await upstream.received(2)
            await shown.open(live.url)
            await shown.until(f"{text('keys')}.includes('cooling')")
            first = await shown.eval("document.querySelector('[data-until]').innerText")
            assert re.fullmatch(r"free in 12 min \d\d s", first)
            await shown.until(f"document.querySelector('[data-until]').innerText !== '{first}'")
            await shown.until(f"{text('flying')}.includes('up / k2')")
            age = await shown.eval("document.querySelector('[data-began]').innerText")
            await shown.until(f"document.querySelector('[data-began]').innerText !== '{age}'")
            go.set()
            await answer
            await shown.until(f"{text('flying')}.includes('Nothing is running')")
            assert [] == shown.complaints


@needs_browser
@pytest.mark.slow
async def test_filters_and_pause():
    """Words and outcome are joined, new requests are filtered too, a paused table stands still and catches up."""
    async with running(config(provider(DEAD))) as live, Browser() as shown:
        await shown.open(live.url)
        await shown.until(LIVE)
        for number in range(6):
            outcome = "stalled_idle" if number % 3 == 0 else "complete"
            told(live, f"r{number}", client="bob" if number % 2 else "alice", outcome=outcome)
        await shown.until(f"{ROWS}.length === 6")
        await shown.eval(f"{at('words')}.focus()")
        await shown.type("BOB")
        assert ["r5", "r3", "r1"] == await shown.eval(ROWS)
        await shown.eval(f"{at('outcome')}.value = 'failed'; {at('outcome')}.dispatchEvent(new Event('change'))")
        assert ["r3"] == await shown.eval(ROWS)
        told(live, "r6", client="bob", outcome="limit")
        told(live, "r7", client="bob")
        await shown.until(f"{ROWS}.length === 2")
        assert ["r6", "r3"] == await shown.eval(ROWS)
        await shown.type("by")
        assert "No request passes the filters" in await shown.eval(text("empty"))
        await shown.eval(
            f"{at('words')}.value = ''; {at('outcome')}.value = ''; {at('words')}.dispatchEvent(new Event('input'))"
        )
        assert 8 == await shown.eval(f"{ROWS}.length")
        await shown.eval(f"{at('pause')}.click()")
        told(live, "r8")
        await shown.until(f"{text('requests-count')}.includes('1 waiting')")
        assert 8 == await shown.eval(f"{ROWS}.length")
        await shown.eval(f"{at('pause')}.click()")
        await shown.until(f"{ROWS}[0] === 'r8'")
        assert [] == shown.complaints


@needs_browser
@pytest.mark.slow
async def test_the_keyboard_is_enough():
    """Tab reaches a request, Enter opens and closes it; arrows read a chart minute by minute."""
    async with running(config(provider(DEAD))) as live, Browser() as shown:
        told(live, "r1")
        await shown.open(live.url)
        await shown.until(f"{ROWS}.length === 1")
        for _ in range(30):
            await shown.press("Tab")
            if await shown.eval("document.activeElement.className === 'open'"):
                break
        await shown.press("Enter")
        assert "true" == await shown.eval("document.activeElement.getAttribute('aria-expanded')")
        assert 1 == await shown.eval("document.querySelectorAll('tr.detail').length")
        await shown.press("Enter")
        assert 0 == await shown.eval("document.querySelectorAll('tr.detail').length")
        await shown.eval("document.querySelector('.charts svg').focus()")
        await shown.press("ArrowLeft")
        assert "1 requests, 0 failed" in await shown.eval("document.querySelector('.readout').innerText")
        await shown.press("Escape")
        assert "" == await shown.eval("document.querySelector('.readout').innerText")
        unnamed = "[...document.querySelectorAll('button, input, select, svg[tabindex]')].filter((one) => !(one.innerText || one.labels?.length || one.getAttribute('aria-label'))).length"
        assert 0 == await shown.eval(unnamed)


@asynccontextmanager
async def serving(settings, port: int):
    """A gateway on a fixed port, so that it can come back there."""
    telemetry = Telemetry(Log(level="error"))
    listening = await listen(settings, telemetry, bind("127.0.0.1", port))
    try:
        yield listening.gateway
    finally:
        await listening.close(0)
        telemetry.close()


@needs_browser
@pytest.mark.slow
async def test_the_page_survives_a_restart():
    """While the gateway is away the last state stays and says so; then the page goes on by itself."""
    settings, port = config(provider(DEAD)), closed_port()
    async with Browser() as shown:
        async with serving(settings, port) as gateway:
            told(gateway, "old")
            await shown.open(f"http://127.0.0.1:{port}/")
            await shown.until(f"{ROWS}.length === 1")
        await shown.until("document.body.dataset.state === 'lost'")
        assert "reconnecting" == await shown.eval(text("pill-text"))
        assert "last known state" in await shown.eval(text("banner"))
        assert ["old"] == await shown.eval(ROWS)
        async with serving(settings, port) as gateway:
            told(gateway, "new")
            await shown.until(LIVE, within_s=20)
            await shown.until(f"{ROWS}.length === 2")
            assert ["new", "old"] == await shown.eval(ROWS)
            assert await shown.eval(f"{at('banner')}.hidden")
    # The browser itself reports connections that were refused; the page's own code complains about nothing.
    assert [] == [complaint for complaint in shown.complaints if "net::ERR_" not in complaint]


@needs_browser
@pytest.mark.slow
@pytest.mark.promise("S04")
async def test_the_page_asks_for_the_admin_key():
    """A wrong key and a client's key are told apart; the right one opens, for this tab and no longer."""
    settings = msgspec.structs.replace(config(provider(DEAD)), admin=Secret(ADMIN_KEY).sha256())
    async with running(settings) as live, Browser() as shown:
        await shown.open(live.url)
        for key, message in (("wrong", "not the admin key"), (CLIENT_KEY, "a client's key")):
            await shown.until(f"document.activeElement === {at('key')}")
            assert await shown.eval(f"{at('main')}.hidden")
            await shown.type(key)
            await shown.press("Enter")
            await shown.until(f"{text('unlock-error')}.includes(`{message}`)")
        await shown.type(ADMIN_KEY)
        await shown.press("Enter")
        await shown.until(LIVE)
        told(live, "r1")
        await shown.until(f"{ROWS}[0] === 'r1'")
        stored = "JSON.stringify([Object.values(localStorage), document.cookie, location.href])"
        assert ADMIN_KEY not in await shown.eval(stored)
        assert ADMIN_KEY == await shown.eval("sessionStorage.getItem('dragoman-admin-key')")
        assert ADMIN_KEY not in await shown.eval("document.documentElement.outerHTML")


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
async def test_both_themes_at_both_sizes(dark, width):
    """The theme follows the system until it is chosen; nothing is wider than a phone; text has contrast."""
    async with running(config(provider(DEAD))) as live, Browser(width=width, height=844, dark=dark) as shown:
        for number in range(30):
            told(live, f"r{number}", alias="a-rather-long-model-name-" * 3, outcome=OUTCOMES[number % len(OUTCOMES)])
        await shown.open(live.url)
        await shown.until(f"{ROWS}.length === 30")
        assert ("dark" if dark else "light") == await shown.eval("document.documentElement.dataset.theme")
        assert await shown.eval("document.documentElement.scrollWidth <= innerWidth")
        assert [] == await shown.eval(CONTRAST)
        await shown.eval(f"{at('theme')}.click()")
        assert ("light" if dark else "dark") == await shown.eval("document.documentElement.dataset.theme")
        assert [] == await shown.eval(CONTRAST)
        assert [] == shown.complaints


CONTRAST = """(() => {
  const parse = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (one) => { for (; one; one = one.parentElement) { const c = parse(getComputedStyle(one).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } };
  const bad = [];
  for (const one of document.querySelectorAll('h1, h2, p, td, th, span, li, b, button')) {
    if (![...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()) || !one.offsetWidth) continue;
    const [a, b] = [light(parse(getComputedStyle(one).color)), light(behind(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) bad.push(`${one.className} ${one.textContent.slice(0, 20)} ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return [...new Set(bad)];
})()"""


@needs_browser
@pytest.mark.slow
@pytest.mark.promise("S15")
async def test_names_cannot_inject_markup():
    """A model name that is markup is shown as it stands."""
    async with running(config(provider(DEAD))) as live, Browser() as shown:
        await shown.open(live.url)
        await shown.until(LIVE)
        name = "<img src=x onerror=document.title='owned'>"
        told(live, "r1", alias=name, client="<b>x</b>", outcome="limit")
        await shown.until(f"{ROWS}.length === 1")
        assert name == await shown.eval("document.querySelector('td.name').innerText")
        assert ("Dragoman", 0) == (
            await shown.eval("document.title"),
            await shown.eval("document.querySelectorAll('td img').length"),
        )
        assert [] == shown.complaints


@needs_browser
@pytest.mark.slow
@pytest.mark.promise("S24")
@pytest.mark.timeout(180)
async def test_ten_thousand_records_leave_the_page_as_it_was():
    """Rows, nodes and memory are the same after 10,000 records as after 1,000."""
    async with running(config(provider(DEAD))) as live, Browser() as shown:
        await shown.open(live.url)
        await shown.until(LIVE)

        async def push(first: int, last: int) -> None:
            for start in range(first, last, 200):
                for number in range(start, start + 200):
                    told(live, f"r{number}")
                await shown.until(
                    f"document.querySelector('tr.entry')?.record.request_id === 'r{start + 199}'", within_s=20
                )

        async def size() -> tuple[int, int, int]:
            await shown.call("HeapProfiler.collectGarbage")
            rows = await shown.eval("document.querySelectorAll('tbody tr').length")
            nodes = await shown.eval("document.querySelectorAll('*').length")
            heap = (await shown.call("Runtime.getHeapUsage"))["usedSize"]
            return rows, nodes, heap

        await push(0, 1000)
        rows, nodes, heap = await size()
        await push(1000, 10_000)
        after = await size()
        assert (200, 200) == (rows, after[0])
        assert after[1] <= nodes * 1.05
        assert after[2] <= heap * 1.3 + 500_000
        assert await shown.eval(f"{at('missed')}.hidden")
        assert [] == shown.complaints
