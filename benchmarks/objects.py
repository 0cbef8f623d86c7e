"""Objects that compress about as well as real ones do."""

from __future__ import annotations

import random
from typing import Any


def config_map(number: int, size: int) -> dict[str, Any]:
    """A ConfigMap of about `size` bytes of JSON, as a list shows it; the same for the same number."""
    noise = random.Random(number)
    uid = f"{number:08x}-{noise.getrandbits(16):04x}-4000-8000-{noise.getrandbits(48):012x}"
    fields = {f"f:field-{key}": {} for key in range(4)}
    metadata = {
        "name": f"object-{number}",
        "namespace": "default",
        "uid": uid,
        "resourceVersion": str(number + 1),
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": f"app-{number % 50}", "tier": "bench"},
        "managedFields": [
            {
                "manager": "bench",
                "operation": "Update",
                "apiVersion": "v1",
                "time": "2026-01-01T00:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {".": {}, **fields}},
            }
        ],
    }
    left = max(0, size - 620)
    data = {f"field-{key}": "".join(f"{noise.getrandbits(24):06x} " for _ in range(left // 28)) for key in range(4)}
    return {"metadata": metadata, "data": data}
