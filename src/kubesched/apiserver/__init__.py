"""The embedded API server: a versioned store of whole documents over real HTTP. The only fake in the project.

    from kubesched.apiserver import Server

What it does is held against recordings of a real server (tests/recordings). `Server` is the whole of it in-process;
`serve` is what the command `kubesched apiserver` runs.
"""

from kubesched.apiserver.admission import DEFAULT_PROFILE, Profile
from kubesched.apiserver.authentication import ADMIN, Account
from kubesched.apiserver.controllers import CONTROLLERS, DEMO_PROVISIONER, chosen
from kubesched.apiserver.kubeconfig import kubeconfig, write_kubeconfig
from kubesched.apiserver.messages import Answer, DropConnection, Request, Stream
from kubesched.apiserver.roles import Rule
from kubesched.apiserver.serve import ServeOptions, serve
from kubesched.apiserver.server import ListenError, Server

__all__ = [
    "ADMIN",
    "CONTROLLERS",
    "DEFAULT_PROFILE",
    "DEMO_PROVISIONER",
    "Account",
    "Answer",
    "DropConnection",
    "ListenError",
    "Profile",
    "Request",
    "Rule",
    "ServeOptions",
    "Server",
    "Stream",
    "chosen",
    "kubeconfig",
    "serve",
    "write_kubeconfig",
]
