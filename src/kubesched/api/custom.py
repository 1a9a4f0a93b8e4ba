"""Objects of kinds that scheduling does not know: custom resources that a plugin of somebody's own listens to."""

from __future__ import annotations

from typing import Any

from kubesched.api.meta import Object


class CustomObject(Object):
    """Metadata typed, the rest as it came. What lies outside `spec`, `status` and `data` is dropped."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    data: dict[str, Any] = {}
