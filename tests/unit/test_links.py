"""Links to nodes carry, hold back, deliver late and lose answers."""

import socket
import threading

import pytest

from tests.cluster.links import Links, Routes
from tests.cluster.processes import free_ports, until


def test_a_cut_link_delivers_nothing_until_it_is_mended() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        addresses = {1: f"127.0.0.1:{free_ports(1)[0]}", 2: f"127.0.0.1:{server.getsockname()[1]}"}
        echo = threading.Thread(target=_echo, args=(server,))
        echo.start()
        links = Links(addresses)
        host, port = links.address(1, 2).split(":")
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(b"a")
            assert connection.recv(10) == b"a"
            links.cut(2, 1)
            until(lambda: not links.is_mended(1, 2), "it is cut")
            connection.settimeout(0.2)
            connection.sendall(b"b")
            with pytest.raises(TimeoutError):
                connection.recv(10)
            links.mend_all()
            connection.settimeout(5)
            assert connection.recv(10) == b"b"
        echo.join()
        links.close()


def test_lost_answers_never_arrive_though_what_was_asked_did_and_new_connections_work() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        routes = Routes({1: f"127.0.0.1:{server.getsockname()[1]}"})
        host, port = routes.addresses[0].split(":")
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            accepted, _ = server.accept()
            with accepted:
                routes.hold_answers()
                connection.sendall(b"asked")
                assert accepted.recv(10) == b"asked"
                accepted.sendall(b"answer")
                connection.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    connection.recv(10)
                routes.lose_answers()
                connection.settimeout(5)
                assert connection.recv(10) == b""
        echo = threading.Thread(target=_echo, args=(server,))
        echo.start()
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(b"again")
            assert connection.recv(10) == b"again"
        echo.join()
        routes.close()


def _echo(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        while data := connection.recv(100):
            connection.sendall(data)
