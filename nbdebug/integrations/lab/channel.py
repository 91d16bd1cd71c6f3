"""The channel from the kernel to the extension: messages that are sent while a cell runs.

The extension names the channel when it connects. No message is sent before that, so that no front end gets messages
that it did not request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nbdebug.core import announcements as announcing
from nbdebug.errors import BadInput

__all__ = ["connect", "disconnect", "is_heard", "send"]

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
    from nbdebug.integrations.lab.following import Follower

    Follower(live, send)
