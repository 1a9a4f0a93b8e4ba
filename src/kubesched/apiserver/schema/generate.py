"""Makes `types.json.gz`, the table of API types, from a checkout of k8s.io/api and k8s.io/apimachinery.

    python -m kubesched.apiserver.schema.generate API_REPO MACHINERY_REPO TAG

It reads names, types, tags and list markers of struct fields (facts of the API), no text. A row of the table is

    type name -> [[json name, type, protobuf number, flags, merge key, patch strategy, list type, list keys,
                   name of a named string type], ...]

where a type is a scalar name, `[]T`, `map:T` or `#Other`. Flags: `r` required, `p` may be absent (a pointer), `z`
written even when zero, `o` left out when a zero struct. An empty name embeds the fields of the type.
Run it again when the server is to speak a newer version.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

GROUP_VERSIONS = (
    "admissionregistration/v1", "apps/v1", "authentication/v1", "authorization/v1", "autoscaling/v1",
    "autoscaling/v2", "batch/v1", "certificates/v1", "coordination/v1", "core/v1", "discovery/v1", "events/v1",
    "flowcontrol/v1", "networking/v1", "node/v1", "policy/v1", "rbac/v1", "resource/v1", "scheduling/v1", "storage/v1",
)  # fmt: skip
META = "pkg/apis/meta/v1"

_SCALARS = {
    "string": "string", "bool": "bool", "int": "int", "int16": "int", "int32": "int", "int64": "long",
    "uint8": "int", "uint16": "int", "uint32": "int", "uint64": "long", "float32": "float", "float64": "float",
    "byte": "int", "[]byte": "bytes",
    "resource.Quantity": "quantity", "metav1.Time": "time", "metav1.MicroTime": "microtime", "Time": "time",
    "MicroTime": "microtime", "metav1.Duration": "string", "intstr.IntOrString": "intorstring",
    "runtime.RawExtension": "any", "runtime.Object": "any", "types.UID": "string", "types.NodeName": "string",
    "FieldsV1": "any", "metav1.FieldsV1": "any", "JSON": "any",
}  # fmt: skip
_STRUCT = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.M | re.S)
_ALIAS = re.compile(r"^type (\w+) ([\w.\[\]*]+)", re.M)
_FIELD = re.compile(r"^\t(?:(\w+)\s+)?([\w.\[\]*]+)\s+`(.*?)`", re.M)
_TAG = re.compile(r'(\w+):"([^"]*)"')


def main(api_repo: str, machinery_repo: str, tag: str) -> None:
    packages = {f"io.k8s.api.{gv.replace('/', '.')}": _sources(api_repo, tag, gv) for gv in GROUP_VERSIONS}
    packages["io.k8s.apimachinery.pkg.apis.meta.v1"] = _sources(machinery_repo, tag, META)
    aliases = {package: dict(_aliases(text)) for package, text in packages.items()}
    types: dict[str, list[list[object]]] = {}
    for package, text in packages.items():
        for name, body in _STRUCT.findall(text):
            if f"#{package}.{name}" not in _SCALARS and name not in _SCALARS:
                types[f"{package}.{name}"] = _fields(package, body, aliases)
    atomic = [
        f"{package}.{name}"
        for package, text in packages.items()
        for name in re.findall(r"\+structType=atomic\n(?://.*\n)*type (\w+) struct", text)
    ]
    data = json.dumps({"tag": tag, "atomic": atomic, "types": types}, separators=(",", ":"), sort_keys=False).encode()
    target = Path(__file__).with_name("types.json.gz")
    target.write_bytes(gzip.compress(data, mtime=0))


def _sources(repo: str, tag: str, folder: str) -> str:
    names = subprocess.run(
        ["git", "-C", repo, "ls-tree", "--name-only", tag, folder + "/"], check=True, capture_output=True, text=True
    ).stdout.split()
    wanted = [n for n in names if re.search(r"/(types|micro_time|time|types_\w+|objectreference)\.go$", n)]
    wanted = [n for n in wanted if "swagger" not in n]
    return "\n".join(
        subprocess.run(["git", "-C", repo, "show", f"{tag}:{n}"], check=True, capture_output=True, text=True).stdout
        for n in wanted
    )


def _aliases(text: str) -> list[tuple[str, str]]:
    return [(name, target) for name, target in _ALIAS.findall(text) if target not in ("struct", "interface")]


def _fields(package: str, body: str, aliases: dict[str, dict[str, str]]) -> list[list[object]]:
    rows: list[list[object]] = []
    position = 0
    for found in _FIELD.finditer(body):
        comments = body[position : found.start()]
        position = found.end()
        _, go_type, tags = found.groups()
        tag = dict(_TAG.findall(tags))
        name, _, options = tag.get("json", "").partition(",")
        if name == "-":
            continue
        type_ = _type(package, go_type, aliases)
        number = int(tag["protobuf"].split(",")[1]) if "protobuf" in tag else 0
        if "inline" in options or (not name and found.group(1) is None):
            rows.append(["", type_, number] if number else ["", type_])
            continue
        optional = "omitempty" in options or "omitzero" in options or "+optional" in comments
        flags = "" if optional else "r"
        flags += "p" if go_type.startswith("*") else ""
        flags += "o" if "omitzero" in options else "" if "omitempty" in options else "z"
        list_type = _marker(comments, "listType") or _marker(comments, "mapType") or _marker(comments, "structType")
        keys = re.findall(r"\+listMapKey=(\w+)", comments)
        row: list[object] = [
            name,
            type_,
            number,
            flags,
            tag.get("patchMergeKey", ""),
            tag.get("patchStrategy", ""),
            list_type,
            keys,
            _named_scalar(package, go_type, aliases),
        ]
        while row and row[-1] in ("", [], 0):
            row.pop()
        rows.append(row)
    return rows


def _named_scalar(package: str, go_type: str, aliases: dict[str, dict[str, str]]) -> str:
    """`v1.PodPhase` for a field whose type is a named string: errors tell it."""
    name = go_type.lstrip("*")
    if aliases.get(package, {}).get(name) == "string":
        return f"{package.rsplit('.', 1)[-1]}.{name}"
    return ""


def _marker(comments: str, name: str) -> str:
    found = re.search(rf"\+{name}=(\w+)", comments)
    return found.group(1) if found else ""


def _type(package: str, go_type: str, aliases: dict[str, dict[str, str]]) -> str:
    go_type = go_type.lstrip("*")
    if go_type in _SCALARS:
        return _SCALARS[go_type]
    if go_type.startswith("[]"):
        return "[]" + _type(package, go_type[2:], aliases)
    if go_type.startswith("map["):
        return "map:" + _type(package, go_type[go_type.index("]") + 1 :], aliases)
    prefix, dot, name = go_type.rpartition(".")
    if dot:
        package = _imported(prefix)
    if name in aliases.get(package, {}):
        return _type(package, aliases[package][name], aliases)
    return f"#{package}.{name}"


def _imported(prefix: str) -> str:
    if prefix == "metav1":
        return "io.k8s.apimachinery.pkg.apis.meta.v1"
    if prefix in ("v1", "apiv1", "corev1"):
        return "io.k8s.api.core.v1"
    found = re.fullmatch(r"([a-z]+?)(v\d\w*)", prefix)
    assert found is not None, prefix
    return f"io.k8s.api.{found.group(1)}.{found.group(2)}"


if __name__ == "__main__":
    main(*sys.argv[1:4])
