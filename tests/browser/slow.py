"""A slow browser, to find tests that read a page before it has answered.

`ATEN_WORKBENCH_SLOW_BROWSER=10` gives pages a tenth of the processor, and lets frames, timers, sizes, `toggle` events
and what goes over the network come up to a quarter of a second late, each of these in its own order as ever. A test
that waits for what it asserts passes under it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

RATE = float(os.environ.get("ATEN_WORKBENCH_SLOW_BROWSER") or 1)
"""Factor by which scripts are slower than usual."""

_LATE = """(() => {
    const soon = setTimeout.bind(window), frame = requestAnimationFrame.bind(window);
    const someTime = () => new Promise(done => soon(done, Math.random() * 250));
    const queue = () => {  // what is given is done late, and in the order in which it was given
        let last = Promise.resolve();
        return act => { last = last.then(someTime).then(act).catch(error => soon(() => { throw error; })); };
    };

    const waiting = new Map();  // frames: all that wait for one are called in the same one
    let asked = 0, coming = false;
    window.requestAnimationFrame = act => {
        waiting.set(++asked, act);
        if (!coming) someTime().then(() => frame(now => {
            const due = [...waiting];
            waiting.clear();
            coming = false;
            for (const [, each] of due) try { each(now); } catch (error) { soon(() => { throw error; }); }
        }));
        coming = true;
        return asked;
    };
    window.cancelAnimationFrame = number => waiting.delete(number);

    window.setTimeout = (act, after = 0, ...given) => soon(act, after + 120, ...given);

    const Sizes = window.ResizeObserver;
    window.ResizeObserver = class extends Sizes {
        constructor(act) {
            const late = queue();
            super((entries, self) => late(() => self.ended || act(entries, self)));
        }
        disconnect() { this.ended = true; super.disconnect(); }
        observe(...given) { this.ended = false; super.observe(...given); }
    };

    const listen = EventTarget.prototype.addEventListener, toggled = queue();
    EventTarget.prototype.addEventListener = function (kind, act, how) {
        const late = kind === "toggle" && typeof act === "function" && this instanceof HTMLDetailsElement;
        listen.call(this, kind, late ? event => toggled(() => act.call(this, event)) : act, how);
    };

    const fetched = window.fetch.bind(window), called = queue();
    window.fetch = (...given) => new Promise((done, failed) => called(() => { fetched(...given).then(done, failed); }));

    const send = WebSocket.prototype.send, sent = queue();
    WebSocket.prototype.send = function (data) {
        sent(() => { if (this.readyState === WebSocket.OPEN) send.call(this, data); });
    };
})();"""


def slowed(page: Page) -> None:
    """Makes a page slow if the environment says so."""
    if RATE > 1:
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": RATE})
        page.add_init_script(_LATE)
