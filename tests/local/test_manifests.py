"""The workload's objects have the paths that an API server serves, and no Pod of theirs can ever run."""

from __future__ import annotations

import pytest

from local import manifests


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (("", "pods"), "/api/v1/namespaces/demo/pods/x"),
        (("apps", "deployments"), "/apis/apps/v1/namespaces/demo/deployments/x"),
    ],
)
def test_paths(resource: tuple[str, str], path: str) -> None:
    assert manifests.resource_path(resource, "demo", "x") == path
    assert manifests.resource_path(resource, "demo") == path.removesuffix("/x")


def test_pods_wait_for_a_scheduler_that_does_not_exist() -> None:
    templates = [
        manifests.pod("web", "web-1", "demo:1")["spec"],
        manifests.deployment("web", "demo:1", 2)["spec"]["template"]["spec"],
        manifests.replica_set("web", "web-1", "demo:1", 2)["spec"]["template"]["spec"],
    ]
    assert {spec["schedulerName"] for spec in templates} == {"kubecdc-demo-runs-nothing"}


def test_selectors_match_their_templates() -> None:
    for made in (manifests.deployment("web", "demo:1", 1), manifests.replica_set("web", "web-1", "demo:1", 1)):
        wanted = made["spec"]["selector"]["matchLabels"]
        assert wanted.items() <= made["spec"]["template"]["metadata"]["labels"].items()
