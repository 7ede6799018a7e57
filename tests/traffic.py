"""What passes between nginx and the SuperLink, recorded; and a search for arrays in any bytes."""

from __future__ import annotations

import select
import socket
import ssl
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import numpy as np

from ramet.deploy.coordinator import Coordinator
from ramet.deploy.proxy import reload_nginx
from ramet.payload import Array

WINDOW = 16
"""Bytes that are searched for at once: four numbers of float32, or two of 64 bits."""
_VARIETY = 6
"""A window with fewer different bytes, such as zeros, could be there by chance."""


@contextmanager
def recorded(coordinator: Coordinator, folder: Path) -> Iterator[None]:
    """Record what nginx and the SuperLink send to each other, in the clear, one file per direction.

    nginx passes requests on to a relay with the coordinator's own certificate, instead of the
    SuperLink.
    """
    folder.mkdir()
    listener = socket.create_server(("127.0.0.1", 0))
    Thread(target=_accept, args=(listener, coordinator, folder), daemon=True).start()
    settings = coordinator.folder / "nginx.conf"
    before, link = settings.read_text(), f"127.0.0.1:{coordinator.consortium.link_port};"
    assert before.count(link) == 1
    settings.write_text(before.replace(link, f"127.0.0.1:{listener.getsockname()[1]};"))
    assert reload_nginx(coordinator.folder)
    try:
        yield
    finally:
        settings.write_text(before)
        reload_nginx(coordinator.folder)
        listener.close()


def _accept(listener: socket.socket, coordinator: Coordinator, folder: Path) -> None:
    home, count = coordinator.folder, 0
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(home / "server.pem", home / "server.key")
    client = ssl.create_default_context(cafile=str(coordinator.authority))
    link = ("127.0.0.1", coordinator.consortium.link_port)
    with suppress(OSError):  # the listener is closed at the end
        while True:
            connection, _ = listener.accept()
            count += 1
            files = folder / f"{count:05d}.from-sites", folder / f"{count:05d}.to-sites"
            Thread(target=_relay, args=(connection, link, server, client, files)).start()


def _relay(
    connection: socket.socket,
    link: tuple[str, int],
    server: ssl.SSLContext,
    client: ssl.SSLContext,
    files: tuple[Path, Path],
) -> None:
    """Pass bytes on until one side closes; in one thread, since SSL sockets are not for two."""
    with (
        suppress(OSError),
        server.wrap_socket(connection, server_side=True) as near,
        client.wrap_socket(socket.create_connection(link), server_hostname="localhost") as far,
        files[0].open("ab", buffering=0) as from_near,
        files[1].open("ab", buffering=0) as from_far,
    ):
        ways = {near: (far, from_near), far: (near, from_far)}
        while True:
            waiting = [side for side in ways if side.pending()]
            for source in waiting or select.select([*ways], [], [])[0]:
                content = _received(source)
                if content == b"":
                    return
                if content is not None:
                    target, record = ways[source]
                    record.write(content)
                    target.sendall(content)


def _received(source: ssl.SSLSocket) -> bytes | None:
    """What has arrived; None if that was no content, such as a session ticket."""
    source.settimeout(0)
    try:
        return source.recv(2**16)
    except ssl.SSLWantReadError:
        return None
    finally:
        source.settimeout(None)


def contents(*places: Path) -> Iterator[bytes]:
    """The bytes of all files in these folders."""
    for place in places:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and not path.is_symlink():
                yield path.read_bytes()


def share_found(arrays: Mapping[str, Array], haystacks: Iterable[bytes]) -> dict[str, float]:
    """For each array, the share of its windows that occur anywhere, at any offset.

    A message may be cut into pieces on its way and on disk, so parts of an array are searched for,
    but only those that no other of the arrays has: a parameter that training changes in the same
    way at all sites is in their mean too. An array without such parts is left out.
    """
    windows = {name: _windows(array) for name, array in arrays.items()}
    count = Counter(window for own in windows.values() for window in own)
    windows = {name: {w for w in own if count[w] == 1} for name, own in windows.items()}
    windows = {name: own for name, own in windows.items() if own}
    wanted = {window for own in windows.values() for window in own}
    seen = _occurring(wanted, b"".join(haystacks))
    return {name: len(own & seen) / len(own) for name, own in windows.items()}


def _windows(array: Array) -> set[bytes]:
    content = np.ascontiguousarray(array).tobytes()
    all_windows = (content[i : i + WINDOW] for i in range(0, len(content) - WINDOW + 1, WINDOW))
    return {window for window in all_windows if len({*window}) >= _VARIETY}


def _occurring(wanted: set[bytes], content: bytes) -> set[bytes]:
    """The windows that occur in the content: by their first eight bytes, and then in full."""
    heads = np.array(sorted({int.from_bytes(window[:8], "little") for window in wanted}), "<u8")
    occurring = set()
    for offset in range(8):
        count = (len(content) - offset) // 8
        if count <= 0:
            break
        words = np.frombuffer(content, "<u8", count, offset)
        for place in np.flatnonzero(np.isin(words, heads)):
            start = offset + 8 * int(place)
            occurring.add(content[start : start + WINDOW])
    return occurring & wanted
