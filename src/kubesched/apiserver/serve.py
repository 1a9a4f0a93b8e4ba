"""`kubesched apiserver`: a server that runs until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kubesched.apiserver.admission import DEFAULT_PROFILE
from kubesched.apiserver.controllers import chosen
from kubesched.apiserver.kubeconfig import write_kubeconfig
from kubesched.apiserver.server import Server
from kubesched.manifests import read_path
from kubesched.tls import ServerCertificate, self_signed

log = logging.getLogger("kubesched.apiserver")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The options of the command. `load` names manifest files and folders, `save` what the cluster is written to at the
    end; `controllers` is a list as of kube-controller-manager; `default_admission` has all admission plugins on; `tls`
    generates a certificate authority."""

    host: str = "127.0.0.1"
    port: int = 8001
    load: tuple[Path, ...] = field(default=())
    save: Path | None = None
    controllers: tuple[str, ...] = ("*",)
    default_admission: bool = False
    node_simulator: bool = True
    kubeconfig_out: Path | None = None
    tls: bool = False
    token: str | None = None


async def serve(options: ServeOptions, started: Callable[[Server], None] | None = None) -> None:
    """Serves until SIGINT or SIGTERM. `started` is called once clients can connect."""
    certificate: ServerCertificate | None = self_signed([options.host, "localhost"]) if options.tls else None
    server = Server(
        options.port,
        host=options.host,
        controllers=chosen(options.controllers),
        profile=DEFAULT_PROFILE if options.default_admission else None,
        node_simulator=options.node_simulator,
        certificate=certificate,
        token=options.token,
    )
    for path in options.load:
        if path == options.save and not path.exists():
            continue  # the first run of a cluster that is kept there
        # What is left out would be gone from the file in the end.
        count = server.load_documents(read_path(path), leave_out_unknown=options.save is None)
        log.info("objects loaded path=%s count=%d", path, count)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with server:
        if options.kubeconfig_out is not None:
            write_kubeconfig(server, options.kubeconfig_out)
        if started is not None:
            started(server)
        await stop.wait()
    if options.save is not None:
        count = server.save(options.save)
        log.info("objects saved path=%s count=%d", options.save, count)
