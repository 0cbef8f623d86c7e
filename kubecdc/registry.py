"""A Schema Registry as the codec needs it, over confluent-kafka's client."""

from __future__ import annotations

import importlib
import warnings
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from kubecdc.errors import Misconfigured, Undecodable, Unreachable

ANSWER_S = 5.0  # the client's own default is to wait for ever
RETRIES = 2
DENIED = (401, 403)


class Registry:
    """Registers and fetches schemas at `url` (http or https, credentials may be part of it and are in no message)."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._shown = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
        self._library = _library()
        self._client = self._library.SchemaRegistryClient({"url": url, "timeout": ANSWER_S, "max.retries": RETRIES})

    def id_of(self, subject: str, schema: str) -> int:
        """Register the schema under the subject, or find it. Raises Unreachable, and Misconfigured on a refusal."""
        try:
            return int(self._client.register_schema(subject, self._library.Schema(schema, "AVRO")))
        except self._library.SchemaRegistryError as error:
            if 400 <= error.http_status_code < 500:
                raise Misconfigured(
                    f"Schema Registry {self._shown} refuses {subject}: {self._answer(error)}"
                ) from error
            raise self._unreachable(error) from error
        except Exception as error:
            raise self._unreachable(error) from error

    def schema_of(self, schema_id: int) -> str:
        """Return the schema's text. Raises Undecodable when the registry does not know it, else Unreachable.

        A registry that is away says nothing about a record: to take that for a bad record would lose good ones.
        """
        try:
            return str(self._client.get_schema(schema_id).schema_str)
        except self._library.SchemaRegistryError as error:
            if error.http_status_code == 404:
                raise Undecodable(f"Schema Registry {self._shown} knows no schema id {schema_id}") from error
            raise self._unreachable(error) from error
        except Exception as error:
            raise self._unreachable(error) from error

    def _answer(self, error: Any) -> str:
        """What an error answer says, with what to do about it where that is known."""
        denied = error.http_status_code in DENIED
        advice = ": check the user and the password in --schema-registry" if denied else ""
        return f"{error.http_status_code} {error.error_message}{advice}"

    def _unreachable(self, error: Exception) -> Unreachable:
        if isinstance(error, self._library.SchemaRegistryError):
            return Unreachable(f"Schema Registry {self._shown} answers {self._answer(error)}")
        return Unreachable(f"Schema Registry {self._shown} does not answer ({type(error).__name__}): check the address")


def _library() -> Any:
    """Load the client when it is needed: it is slow, and a library below it insists on a warning that is none of ours.

    That one (authlib) puts its filter in front of all others when it is imported, so it comes first.
    """
    with warnings.catch_warnings():
        importlib.import_module("authlib.deprecate")
        warnings.simplefilter("ignore")
        return importlib.import_module("confluent_kafka.schema_registry")
