"""A forward proxy that sends everything to one server, and records what it was asked for."""

import asyncio

from tests.support.fake_server import InThread


class TinyProxy(InThread):
    """Use as a context manager; speaks CONNECT for https, absolute URLs for http.

    Args:
        port: of the server, on this machine, to which everything goes, whatever host is named.

    Attributes:
        asked: the request lines.
        credentials: the Proxy-Authorization headers, empty without.
    """

    def __init__(self, port: int) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.credentials: list[str] = []
        self._to = port
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0

    @property
    def url(self) -> str:
        """What HTTP_PROXY and HTTPS_PROXY name."""
        return f"http://127.0.0.1:{self._port}"

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0.01)  # transports close in the loop's next rounds

    def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        self.asked.append(lines[0])
        given = [
            line for line in lines if line.lower().startswith("proxy-authorization:")
        ]
        self.credentials.append(given[0].partition(": ")[2] if given else "")
        back, forth = await asyncio.open_connection("127.0.0.1", self._to)
        if lines[0].startswith("CONNECT "):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            method, url, version = lines[0].split()
            path = "/" + url.split("/", 3)[3]
            forth.write(
                "\r\n".join([f"{method} {path} {version}", *lines[1:]]).encode()
            )
        try:
            await asyncio.gather(_copy(reader, forth), _copy(back, writer))
        finally:
            forth.close()
            writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**16):
        writer.write(data)
    writer.close()
