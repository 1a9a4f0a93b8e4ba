"""Which API server to talk to, and as whom: kubeconfig files and the service account of a pod.

`load` answers one `ClientConfig`, a plain value: files are merged as kubectl merges them (the first file to name an
entry wins, the first `current-context` wins, relative paths belong to the file that holds them). Whatever cannot work
is refused here, naming the file, the field and the value; secrets are never part of a message.

Reads files and environment, never the network. What the credentials do over time is the business of `auth`.
"""

from __future__ import annotations

import base64
import binascii
import os
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from kubesched.api.errors import KubeschedError

SERVICE_ACCOUNT_DIR: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_API_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_EXEC_EXTENSION: Final = "client.authentication.k8s.io/exec"
_INTERACTIVE_MODES: Final = ("Never", "IfAvailable", "Always")
_YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class KubeconfigError(KubeschedError):
    """A kubeconfig, or what it names, cannot be used. The message names the file, the field and the value."""


@dataclass(frozen=True, slots=True)
class PemSource:
    """PEM material: bytes from the kubeconfig, or a file that may be replaced while we run."""

    data: bytes = b""
    path: str = ""

    def read(self) -> bytes:
        if self.data:
            return self.data
        try:
            return Path(self.path).read_bytes()
        except OSError as error:
            raise KubeconfigError(f"cannot read {self.path}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    server: str
    ca: PemSource | None = None
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    exec_config: Any = None  # extension `client.authentication.k8s.io/exec`, handed to plugins that ask for it

    @property
    def host(self) -> str:
        return urllib.parse.urlsplit(self.server).hostname or ""

    @property
    def is_tls(self) -> bool:
        return self.server.startswith("https://")

    @property
    def is_loopback(self) -> bool:
        return self.host == "localhost" or self.host.startswith("127.") or self.host == "::1"


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints an ExecCredential."""

    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    api_version: str
    interactive_mode: str
    provide_cluster_info: bool
    install_hint: str


@dataclass(frozen=True, slots=True)
class OidcProvider:
    """`auth-provider: oidc`: an id token, renewed by a refresh token before it expires."""

    issuer_url: str
    client_id: str
    client_secret: str = field(repr=False)
    id_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    issuer_ca: PemSource | None


@dataclass(frozen=True, slots=True)
class UserConfig:
    """Nothing set means anonymous."""

    client_certificate: PemSource | None = None
    client_key: PemSource | None = field(default=None, repr=False)
    token: str = field(default="", repr=False)
    token_file: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    exec_plugin: ExecPlugin | None = None
    oidc: OidcProvider | None = None
    impersonate: tuple[tuple[str, str], ...] = ()  # header lines


@dataclass(frozen=True, slots=True)
class ClientConfig:
    cluster: ClusterConfig
    user: UserConfig
    namespace: str = "default"
    source: str = ""  # for people: "context admin@lab of /home/me/.kube/config"


def load(
    path: str | None = None,
    *,
    context: str | None = None,
    server: str = "",
    environ: Mapping[str, str] | None = None,
) -> ClientConfig:
    """The configuration to use, from the first of: `path`, $KUBECONFIG, the pod's service account, ~/.kube/config.

    A missing `path` is an error; missing files in $KUBECONFIG are passed over, as kubectl does. `context` overrides
    `current-context`. `server` is where to instead (`--master`). With neither of the others nobody connects to it, as
    with client-go: credentials are for the cluster that they are written down for.
    """
    if server:
        server = _server_url(server, "--master")
        if not path and not context:
            return ClientConfig(ClusterConfig(server), UserConfig(), source="nobody: --master without --kubeconfig")
        found = load(path, context=context, environ=environ)
        return replace(found, cluster=replace(found.cluster, server=server, tls_server_name=""))
    environ = os.environ if environ is None else environ
    if path:
        return _from_files([path], context, must_exist=True)
    listed = [entry for entry in environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    if listed:
        return _from_files(listed, context, must_exist=False)
    if environ.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT_DIR / "token").exists():
        return in_cluster(environ)
    home = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    if home.exists():
        return _from_files([str(home)], context, must_exist=True)
    raise KubeconfigError(
        f"no API server to talk to: neither --kubeconfig nor $KUBECONFIG is set, this is not a pod with a "
        f"service account, and {home} does not exist"
    )


def in_cluster(environ: Mapping[str, str], account_dir: Path = SERVICE_ACCOUNT_DIR) -> ClientConfig:
    """The service account that Kubernetes mounts into a pod. Its token is replaced on disk well before it expires."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise KubeconfigError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is not a pod")
    token_file, ca_file, namespace_file = (account_dir / name for name in ("token", "ca.crt", "namespace"))
    if not token_file.exists():
        raise KubeconfigError(f"{token_file} does not exist: the pod has no service account token mounted")
    authority = f"[{host}]" if ":" in host else host
    return ClientConfig(
        cluster=ClusterConfig(
            server=f"https://{authority}:{port}", ca=PemSource(path=str(ca_file)) if ca_file.exists() else None
        ),
        user=UserConfig(token_file=str(token_file)),
        namespace=namespace_file.read_text().strip() if namespace_file.exists() else "default",
        source=f"service account of this pod ({account_dir})",
    )


def _from_files(paths: Sequence[str], context: str | None, *, must_exist: bool) -> ClientConfig:
    files = [file for path in paths if (file := _read(Path(path), must_exist)) is not None]
    if not files:
        raise KubeconfigError(f"no kubeconfig found: {os.pathsep.join(paths)} does not exist")
    names = os.pathsep.join(str(file.path) for file in files)

    wanted = context or next((file.current_context for file in files if file.current_context), "")
    if not wanted:
        raise KubeconfigError(f"{names}: current-context is not set; set it or pass a context")
    chosen = _find(files, "contexts", wanted, "context", f"{names}: current-context" if not context else names)
    cluster_name, user_name = chosen.text("cluster"), chosen.text("user")
    if not cluster_name:
        raise KubeconfigError(f"{chosen}.cluster is not set")
    cluster = _cluster(_find(files, "clusters", cluster_name, "cluster", f"{chosen}.cluster"))
    user = _user(_find(files, "users", user_name, "user", f"{chosen}.user")) if user_name else UserConfig()
    return ClientConfig(
        cluster=cluster,
        user=user,
        namespace=chosen.text("namespace") or "default",
        source=f"context {wanted} of {names}",
    )


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    content: dict[str, Any]
    current_context: str


@dataclass(frozen=True, slots=True)
class _Entry:
    """One named entry (or a mapping inside it) with the place it came from, for messages and relative paths."""

    path: Path
    place: str
    fields: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.path}: {self.place}"

    def _typed(self, name: str, kind: type, expected: str) -> Any:
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, kind):
            raise KubeconfigError(f"{self}.{name}: expected {expected}, got {type(value).__name__}")
        return value

    def text(self, name: str) -> str:
        return self._typed(name, str, "a string (quote it)") or ""

    def flag(self, name: str) -> bool:
        return bool(self._typed(name, bool, "true or false"))

    def items(self, name: str) -> list[Any]:
        return self._typed(name, list, "a list") or []

    def child(self, name: str) -> _Entry | None:
        value = self._typed(name, dict, "a mapping")
        return None if value is None else _Entry(self.path, f"{self.place}.{name}", value)

    def file(self, name: str) -> str:
        """A path, relative to the kubeconfig that holds it."""
        value = self.text(name)
        return str(self.path.parent / Path(value).expanduser()) if value else ""

    def pem(self, data_field: str, file_field: str) -> PemSource | None:
        """Inline data wins over a file, as in client-go."""
        if encoded := self.text(data_field):
            try:
                return PemSource(data=base64.b64decode(encoded, validate=True))
            except (binascii.Error, ValueError) as error:
                raise KubeconfigError(f"{self}.{data_field}: not base64: {error}") from error
        if path := self.file(file_field):
            if not Path(path).exists():
                raise KubeconfigError(f"{self}.{file_field}: {path} does not exist")
            return PemSource(path=path)
        return None


def _read(path: Path, must_exist: bool) -> _File | None:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        if not must_exist:
            return None
        raise KubeconfigError(f"{path} does not exist") from None
    except OSError as error:
        raise KubeconfigError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        content = yaml.load(text, _YAML_LOADER)
    except yaml.YAMLError as error:
        # The error's own text quotes the line, which may hold a secret: only the position is told.
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not YAML"
        raise KubeconfigError(f"{path}: {problem}{where}") from None
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise KubeconfigError(f"{path}: expected a mapping, got {type(content).__name__}")
    kind = content.get("kind", "Config")
    if kind != "Config":
        raise KubeconfigError(f"{path}: kind: expected Config, got {kind!r}")
    current = content.get("current-context") or ""
    if not isinstance(current, str):
        raise KubeconfigError(f"{path}: current-context: expected a string (quote it), got {type(current).__name__}")
    return _File(path, content, current)


def _find(files: Sequence[_File], section: str, name: str, field_name: str, asked_by: str) -> _Entry:
    known: list[str] = []
    for entry_name, entry in _entries(files, section, field_name):
        if entry_name == name:
            return entry
        known.append(entry_name)
    raise KubeconfigError(f"{asked_by}: no {field_name} named {name!r}; there are: {', '.join(known) or 'none'}")


def _entries(files: Sequence[_File], section: str, field_name: str) -> Iterator[tuple[str, _Entry]]:
    for file in files:
        root = _Entry(file.path, section, file.content)
        for position, item in enumerate(root.items(section) if section in file.content else []):
            place = f"{section}[{position}]"
            if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                raise KubeconfigError(f"{file.path}: {place}.name: expected a string")
            body = _Entry(file.path, place, item).child(field_name)
            name = item["name"]
            yield name, _Entry(file.path, f"{section}[name={name}].{field_name}", body.fields if body else {})


def _cluster(entry: _Entry) -> ClusterConfig:
    server = entry.text("server")
    if not server:
        raise KubeconfigError(f"{entry}.server is not set")
    ca = entry.pem("certificate-authority-data", "certificate-authority")
    insecure = entry.flag("insecure-skip-tls-verify")
    if insecure and ca is not None:
        raise KubeconfigError(f"{entry}: insecure-skip-tls-verify and a certificate authority exclude each other")
    return ClusterConfig(
        server=_server_url(server, f"{entry}.server"),
        ca=ca,
        insecure_skip_tls_verify=insecure,
        tls_server_name=entry.text("tls-server-name"),
        proxy_url=_proxy_url(entry),
        exec_config=_exec_extension(entry),
    )


def _server_url(server: str, where: str) -> str:
    if "://" not in server:
        server = f"http://{server}"  # client-go's reading of a bare host
    try:
        parts = urllib.parse.urlsplit(server)
        _ = parts.port
    except ValueError as error:
        raise KubeconfigError(f"{where}: {server!r}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise KubeconfigError(f"{where}: {server!r} is not an http or https URL")
    return server.rstrip("/")


def _proxy_url(entry: _Entry) -> str:
    proxy = entry.text("proxy-url")
    if not proxy:
        return ""
    scheme = urllib.parse.urlsplit(proxy).scheme
    if scheme not in ("http", "https"):
        raise KubeconfigError(f"{entry}.proxy-url: only http and https proxies are supported, got {scheme or proxy!r}")
    return proxy


def _exec_extension(entry: _Entry) -> Any:
    for item in entry.items("extensions"):
        if isinstance(item, dict) and item.get("name") == _EXEC_EXTENSION:
            return item.get("extension")
    return None


def _user(entry: _Entry) -> UserConfig:
    certificate = entry.pem("client-certificate-data", "client-certificate")
    key = entry.pem("client-key-data", "client-key")
    if (certificate is None) != (key is None):
        there, missing = ("certificate", "key") if key is None else ("key", "certificate")
        raise KubeconfigError(f"{entry}: client-{there} is set without client-{missing}")
    token, username = entry.text("token"), entry.text("username")
    token_file = entry.file("tokenFile")
    if username and (token or token_file):
        raise KubeconfigError(f"{entry}: more than one way to authenticate: token and username")
    provider = entry.child("auth-provider")
    plugin = entry.child("exec")
    if provider is not None and plugin is not None:
        raise KubeconfigError(f"{entry}: auth-provider and exec exclude each other")
    return UserConfig(
        client_certificate=certificate,
        client_key=key,
        token=token,
        token_file=token_file,
        username=username,
        password=entry.text("password"),
        exec_plugin=None if plugin is None else _exec_plugin(plugin),
        oidc=None if provider is None else _oidc(provider),
        impersonate=_impersonation(entry),
    )


def _exec_plugin(entry: _Entry) -> ExecPlugin:
    command, api_version = entry.text("command"), entry.text("apiVersion")
    if not command:
        raise KubeconfigError(f"{entry}.command is not set")
    if api_version not in EXEC_API_VERSIONS:
        raise KubeconfigError(
            f"{entry}.apiVersion: {api_version!r} is not supported; use one of {', '.join(EXEC_API_VERSIONS)}"
        )
    mode = entry.text("interactiveMode")
    if not mode:
        if api_version == EXEC_API_VERSIONS[0]:
            raise KubeconfigError(f"{entry}.interactiveMode must be set with {api_version}")
        mode = "IfAvailable"
    if mode not in _INTERACTIVE_MODES:
        raise KubeconfigError(f"{entry}.interactiveMode: {mode!r} is not one of {', '.join(_INTERACTIVE_MODES)}")
    if os.sep in command:
        # A command with a path belongs to the kubeconfig's folder; a bare name is looked up in $PATH.
        command = str(entry.path.parent / Path(command).expanduser())
    args = entry.items("args")
    if not all(isinstance(arg, str) for arg in args):
        raise KubeconfigError(f"{entry}.args: expected a list of strings (quote numbers)")
    return ExecPlugin(
        command=command,
        args=tuple(args),
        env=tuple(_variables(entry)),
        api_version=api_version,
        interactive_mode=mode,
        provide_cluster_info=entry.flag("provideClusterInfo"),
        install_hint=entry.text("installHint").strip(),
    )


def _variables(entry: _Entry) -> Iterator[tuple[str, str]]:
    for position, item in enumerate(entry.items("env")):
        name, value = (item.get("name"), item.get("value")) if isinstance(item, dict) else (None, None)
        if not isinstance(name, str) or not name:
            raise KubeconfigError(f"{entry}.env[{position}].name: expected a string")
        if not isinstance(value, str):
            raise KubeconfigError(f"{entry}.env[{position}].value: expected a string (quote it)")
        yield name, value


def _oidc(entry: _Entry) -> OidcProvider:
    name = entry.text("name")
    if name != "oidc":
        raise KubeconfigError(f"{entry}.name: auth provider {name!r} is not supported; use an exec plugin")
    settings = entry.child("config") or _Entry(entry.path, f"{entry.place}.config", {})
    issuer, id_token = settings.text("idp-issuer-url"), settings.text("id-token")
    refresh = settings.text("refresh-token")
    if not issuer:
        raise KubeconfigError(f"{settings}.idp-issuer-url is not set")
    if not id_token and not refresh:
        raise KubeconfigError(f"{settings}: neither id-token nor refresh-token is set")
    return OidcProvider(
        issuer_url=issuer.rstrip("/"),
        client_id=settings.text("client-id"),
        client_secret=settings.text("client-secret"),
        id_token=id_token,
        refresh_token=refresh,
        issuer_ca=settings.pem("idp-certificate-authority-data", "idp-certificate-authority"),
    )


def _impersonation(entry: _Entry) -> tuple[tuple[str, str], ...]:
    lines: list[tuple[str, str]] = []
    if user := entry.text("as"):
        lines.append(("Impersonate-User", user))
    if uid := entry.text("as-uid"):
        lines.append(("Impersonate-Uid", uid))
    lines += [("Impersonate-Group", str(group)) for group in entry.items("as-groups")]
    extra = entry.child("as-user-extra")
    for key in sorted(extra.fields if extra else ()):
        header = "Impersonate-Extra-" + urllib.parse.quote(key.lower(), safe="!#$&'*+-.^_`|~")
        lines += [(header, str(value)) for value in extra.items(key)] if extra else []
    if any("\n" in value or "\r" in value for _, value in lines):
        raise KubeconfigError(f"{entry}: a line break in the names to impersonate")
    if lines and not user:
        raise KubeconfigError(f"{entry}: impersonating groups, a uid or extras needs `as`")
    return tuple(lines)


def exec_cluster_info(cluster: ClusterConfig) -> dict[str, Any]:
    """What an exec plugin with `provideClusterInfo` is told about the cluster."""
    info: dict[str, Any] = {"server": cluster.server}
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure_skip_tls_verify:
        info["insecure-skip-tls-verify"] = True
    if cluster.ca is not None:
        info["certificate-authority-data"] = base64.b64encode(cluster.ca.read()).decode()
    if cluster.proxy_url:
        info["proxy-url"] = cluster.proxy_url
    if cluster.exec_config is not None:
        info["config"] = msgspec.to_builtins(cluster.exec_config)
    return info
