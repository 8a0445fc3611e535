"""A connection that has ended is freed at once: it leaves no cycle to the garbage collector, which may have frozen it."""

from __future__ import annotations

import gc

from testing.scenes.network_toy import framed, run, serving, until


def test_a_connection_that_has_ended_leaves_no_cycle() -> None:
    async def scenario() -> list[object]:
        async with serving() as scene:
            client = scene.raw()
            client.send(framed(b"e"))
            await until(lambda: len(scene.toy.handled) == 1)
            kind = type(next(iter(scene.server._connections)))
            client.close()
            scene.sockets.clear()
            await until(lambda: scene.server.connections_open == 0)
            await until(lambda: True)  # the loop forgets the transport in its next turn
            return [one for one in gc.get_objects() if type(one) is kind]

    gc.collect()
    gc.disable()
    try:
        assert run("uvloop", scenario) == []
    finally:
        gc.enable()
