"""One kind of a simulated store, read as the API reads it: what the tests of reads and of pages share."""

from __future__ import annotations

import pytest

from local.sim_kinds import Json, Kind
from local.sim_reads import ReadOptions, Scope, Watch, list_page, read_options, start_watch, validate, with_defaults
from local.sim_status import Refused
from local.sim_store import SimStore


class Reader:
    """One kind of a store, read as the API reads it."""

    def __init__(self, store: SimStore, kind: Kind, namespace: str = "default") -> None:
        self.store, self.scope = store, Scope(kind, kind.versions[0], namespace)

    def options(self, watchlist: bool = True, **query: str) -> ReadOptions:
        options = with_defaults(read_options(query, self.scope), watchlist=watchlist)
        validate(options, watchlist=watchlist)
        return options

    def list(self, **query: str) -> Json:
        return list_page(self.store, self.scope, self.options(**query), 0)

    def names(self, **query: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.list(**query)["items"]]

    def watch(self, watchlist: bool = True, **query: str) -> Watch:
        return start_watch(self.store, self.scope, self.options(watchlist, **{"watch": "1"} | query), 0)

    def make(self, *names: str, namespace: str = "default") -> str:
        for name in names:
            self.store.create(self.scope.kind, {"metadata": {"name": name}}, namespace=namespace)
        return str(self.store.revision)

    def drop(self, name: str) -> str:
        self.store.delete(self.scope.kind, self.scope.namespace, name)
        return str(self.store.revision)

    def refusal(self, **query: str) -> Json:
        with pytest.raises(Refused) as refused:
            self.watch(**query) if "watch" in query else self.list(**query)
        return refused.value.status


def everywhere(reader: Reader) -> Reader:
    return Reader(reader.store, reader.scope.kind, "")
