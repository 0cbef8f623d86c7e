"""A Schema Registry as the codec needs it, over confluent-kafka's client."""

from __future__ import annotations

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from kubecdc.errors import Undecodable, Unreachable


class Registry:
    """Registers and fetches schemas at `url` (http or https, credentials may be part of it)."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = SchemaRegistryClient({"url": url})

    def id_of(self, subject: str, schema: str) -> int:
        """Register the schema under the subject, or find it. Raises Unreachable."""
        try:
            return int(self._client.register_schema(subject, Schema(schema, "AVRO")))
        except Exception as error:
            raise Unreachable(f"Schema Registry {self._url}: {error}") from error

    def schema_of(self, schema_id: int) -> str:
        """Return the schema's text. Raises Undecodable when the registry cannot give it."""
        try:
            return str(self._client.get_schema(schema_id).schema_str)
        except Exception as error:
            raise Undecodable(f"Schema Registry {self._url}, id {schema_id}: {error}") from error
