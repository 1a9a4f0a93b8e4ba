"""From manifests to objects: what an API server and the workload controllers would have made of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubesched import config, workloads
from kubesched.api.core import Pod
from kubesched.api.meta import Object
from kubesched.config import Configuration
from kubesched.framework.plugin import Plugin
from kubesched.manifests import Admission, Document, Input, Source, check, decode, load, read
from kubesched.offline.errors import OfflineError
from kubesched.scheduler.profiles import plugin_info

ConfigInput = str | bytes | os.PathLike[str] | Mapping[str, Any] | None


#: What workloads may make in all. Nobody wants to wait for more, and most who ask for it have mistyped.
_MADE_MAX = 1_000_000


def load_objects(manifests: Input) -> tuple[list[Object], Admission]:
    """Every object that scheduling has a use for, and the rules by which later ones are admitted."""
    documents = load(manifests)
    admission = Admission.of(documents)
    admitted = [admission.admit(document) for document in documents]
    origins = {id(document.manifest): document.source for document in admitted}
    _check_size(admitted)
    for made in workloads.expand(document.manifest for document in admitted):
        source = origins.get(id(made.owner), Source("workloads"))
        admitted.append(admission.admit(Document(source, made.manifest)))
    return [obj for document in admitted if (obj := decode(document)) is not None], admission


def _check_size(documents: Iterable[Document]) -> None:
    wanted = 0
    for document in documents:
        spec = document.manifest.get("spec") or {}
        counts = (spec.get(field) for field in ("replicas", "parallelism"))
        wanted += sum(count for count in counts if isinstance(count, int))
        if wanted > _MADE_MAX:
            raise OfflineError(
                f"{document.source}: {document} and those before it want {wanted} pods, more than {_MADE_MAX}"
            )


def load_pod(pod: Input | Pod, admission: Admission) -> Pod:
    """The one pod of a manifest, a text or a file; of a workload, the first of its pods."""
    if isinstance(pod, Pod):
        return pod
    documents = read(pod)
    if len(documents) != 1:
        what = "no object" if not documents else f"{len(documents)} objects ({', '.join(map(str, documents[:3]))}, ...)"
        raise OfflineError(f"want the manifest of one pod, this has {what}")
    check(documents)
    (document,) = documents
    if document.kind != "Pod":
        document = _first_pod(admission.admit(document))
    found = decode(admission.admit(document))
    assert isinstance(found, Pod)
    return found


def _first_pod(workload: Document) -> Document:
    for made in workloads.expand([workload.manifest]):
        if made.manifest["kind"] == "Pod":
            return replace(workload, manifest=made.manifest)
    raise OfflineError(f"{workload.source}: want a pod or something that makes pods, this is {workload}")


def load_config(
    source: ConfigInput, plugins: Iterable[type[Plugin]], available: Iterable[type[Plugin]] = ()
) -> Configuration:
    """`plugins` run in every profile, unless the configuration speaks of them; those `available` only where it does."""
    outside = list(plugins)
    infos = [plugin_info(plugin) for plugin in (*outside, *available)]
    if isinstance(source, os.PathLike) or (isinstance(source, str) and not is_text(source)):
        source = Path(source)
    loaded = config.load(source, plugins=infos, enable=[plugin.name for plugin in outside], elects=False)
    if loaded.extenders:
        first = loaded.extenders[0].url_prefix
        raise OfflineError(
            f"the configuration has extenders (extenders[0].urlPrefix: {first!r}) and an offline cluster calls nobody: "
            "remove them to see what the scheduler alone decides"
        )
    return loaded


def is_text(source: str) -> bool:
    """As `manifests.read` tells texts from paths."""
    return "\n" in source or source.lstrip().startswith("{")
