"""The channel from the kernel to the extension: messages that are sent while a cell runs.

The extension names the channel when it connects. No message is sent before that, so that no front end gets messages
that it did not request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nbdebug.core import announcements as announcing
from nbdebug.core.finding import SEVERITIES
from nbdebug.errors import BadInput
from nbdebug.integrations.lab.linking import link_of
from nbdebug.integrations.lab.variables import variables
from nbdebug.setup.source_locations import places_of
from nbdebug.views.live import LiveView

__all__ = ["Follower", "connect", "disconnect", "is_heard", "send"]

MOST = 4  # pages at once; those that were closed without a word are forgotten in time
_channels: dict[str, Any] = {}
_end: list[Callable[[], None]] = []


def connect(details: Mapping[str, Any]) -> dict[str, Any]:
    """Send what happens to this channel, too, from now on."""
    name = details.get("channel")
    if not isinstance(name, str) or not name:
        raise BadInput("it has no channel", where="connect", expected="the id of a comm", do="update the extension")
    from comm import create_comm

    # The extension has made its end already, so that this one must not ask for it to be opened.
    _channels.setdefault(name, create_comm(target_name="nbdebug", comm_id=name, primary=False))
    for oldest in list(_channels)[:-MOST]:
        _forget(oldest)
    if not _end:
        _end.append(announcing.on_begin(_follow))
    return {"connected": True}


def disconnect(details: Mapping[str, Any]) -> dict[str, Any]:
    """Forget a channel; with the last one, training runs are no longer tracked."""
    _forget(str(details.get("channel")))
    if not _channels and _end:
        _end.pop()()
    return {"connected": False}


def _forget(name: str) -> None:
    """Let go of a channel without a word: its page has closed it, and others would hear of something they never had."""
    channel = _channels.pop(name, None)
    if channel is not None:
        channel.close = lambda *_, **__: None


def is_heard() -> bool:
    """Whether anybody listens."""
    return bool(_channels)


def send(message: Mapping[str, Any]) -> None:
    """Send a message to every page that is connected."""
    for channel in list(_channels.values()):
        channel.send(dict(message))


def _follow(live: Any) -> None:

    Follower(live, send)


Send = Callable[[Mapping[str, Any]], None]


class Follower:
    """Tells how one training goes, a few times a second at most, until it ends."""

    def __init__(self, live: Any, send: Send) -> None:
        self._send = send
        self._links: dict[str, dict[str, Any]] = {}  # by place, because reading the source takes its time
        self._view = LiveView(live)  # which hears of each change before this does
        self._unsubscribe = live.subscribe(self._told)
        self._told(live)

    def _told(self, live: Any) -> None:
        data = self._view.data
        findings = [{**finding, **self._link(live, finding["where"])} for finding in data["findings"]]
        loss = _loss(data["curves"])
        health = _health(findings, loss)
        self._send({"watch": {**data, "findings": findings, "loss": loss, "health": health}})
        if not live.is_running:
            self._unsubscribe()
            self._view.close()

    def _link(self, live: Any, where: str) -> dict[str, Any]:
        if where not in self._links:
            model = live.roots[0]
            name = next((name for name, value in variables().items() if value is model), "")
            self._links[where] = link_of(places_of(model, [where]).get(where), name)
        return self._links[where]


def _loss(curves: list[dict[str, Any]]) -> float | str | None:
    """Return the newest value of the loss: of the curve of that name, or of the first that has it in its name."""
    losses = sorted((c for c in curves if "loss" in c["name"].lower()), key=lambda c: c["name"] != "loss")
    return losses[0]["last"] if losses else None


def _health(findings: list[dict[str, Any]], loss: float | str | None) -> dict[str, str]:
    """Return the gravest thing that was found so far; notes are no alarms, and without a finite loss nothing is
    well.
    """
    for severity in SEVERITIES[:2]:
        for finding in findings:
            if finding["severity"] == severity:
                return {"state": severity, "check": finding["check"]}
    if isinstance(loss, str):  # which is the name of a value that JSON cannot hold
        return {"state": "bug", "check": "the loss is not finite"}
    return {"state": "healthy", "check": ""}
