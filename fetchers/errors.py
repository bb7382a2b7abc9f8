"""What can go wrong between asking a source and reading its answer.

FetchError                 one source could not be pulled or read; other sources are not touched by it
|-- CredentialsError       a credential is missing, unreadable, or was not accepted
|-- UnreachableError       no connection, no answer in time, or an answer cut off
|-- RefusedError           the server answered with an error status
|-- UnsafeError            the request would have gone where it must not (another host, a private address, no TLS)
|-- TooLargeError          more bytes than a source of this kind may send
|-- ContentError           the answer is not what was asked for (HTML, broken JSON, other fields)
`-- NotInstalledError      an optional package is missing
SourceDefinitionError      a file in fetchers/sources does not define a source (a mistake in the program)
"""

from __future__ import annotations


class FetchError(RuntimeError):
    """One source could not be pulled or read. The message names source, URL without secrets, what happened, what to do.

    Attributes:
        source: short name of the source.
        url: the URL asked, without secrets; "" when none was.
        again: whether the same request may succeed a moment later.
        retry_after_s: how long the server asked to wait; None when it did not say.
    """

    def __init__(
        self, source: str, what: str, do: str, *, url: str = "", again: bool = False, retry_after_s: float | None = None
    ):
        self.source = source
        self.url = url
        self.again = again
        self.retry_after_s = retry_after_s
        where = f" ({url})" if url else ""
        super().__init__(f"{source}: {what}{where}. {do}")


class CredentialsError(FetchError):
    """A credential is missing, unreadable, or was not accepted."""


class UnreachableError(FetchError):
    """No connection, no answer in time, or an answer cut off."""


class RefusedError(FetchError):
    """The server answered with an error status, which is in `status`."""

    status: int = 0


class UnsafeError(FetchError):
    """The request would have gone to another host, a private address, or without TLS."""


class TooLargeError(FetchError):
    """More bytes than a source of this kind may send."""


class ContentError(FetchError):
    """The answer is not what was asked for."""


class NotInstalledError(FetchError):
    """An optional package is missing."""


class SourceDefinitionError(TypeError):
    """A file in fetchers/sources does not define a source."""
