"""Manifests: from files, folders and texts to documents as an API server would hand them out.

    documents = read(["examples/", "pod.yaml"])        # reading: YAML, JSON, several documents, Lists
    check(documents)                                   # checking: every document decodes, quantities parse, no doubles
    admission = Admission.of(documents)                # admission: defaults, priority, classes, label keys
    objects = [decode(admission.admit(d)) for d in documents]

`load` does the first two. All of it is pure but the reading of files; what is wrong is a `ManifestError` that names
file, document, field and value. Used by the offline engine and by whatever fills an embedded server.
"""

from kubesched.manifests.admission import Admission
from kubesched.manifests.checking import check, decode, load
from kubesched.manifests.defaults import apply_defaults
from kubesched.manifests.label_keys import merge_label_keys
from kubesched.manifests.priority import PriorityClasses
from kubesched.manifests.reading import Document, Input, read, read_path, read_text
from kubesched.manifests.sources import ManifestError, Source

__all__ = [
    "Admission",
    "Document",
    "Input",
    "ManifestError",
    "PriorityClasses",
    "Source",
    "apply_defaults",
    "check",
    "decode",
    "load",
    "merge_label_keys",
    "read",
    "read_path",
    "read_text",
]
