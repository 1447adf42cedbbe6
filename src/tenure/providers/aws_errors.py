"""What do the client's errors mean? The one place where they become words of `protocol`.

Of a call that spends, only what surely never left this machine, or was surely answered with no, is safe;
everything else is Unclear. A read may always be asked again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import botocore.exceptions as failed

from tenure.providers.protocol import Expired, NoCapacity, NotSent, ProviderError, Refused, Unclear

#: There is none just now.
SHORT = (
    "InsufficientInstanceCapacity",
    "InsufficientHostCapacity",
    "InsufficientCapacity",
    "InsufficientCapacityOnHost",
    "ReservationCapacityExceeded",
    "InsufficientFreeAddressesInSubnet",
)
#: Asked too often, answered before anything was done (where the status says so too).
THROTTLED = ("RequestLimitExceeded", "Throttling", "ThrottlingException", "EC2ThrottledException")
#: The thing is gone, or not yet or no longer in a state to be used.
GONE = ("InvalidCapacityReservationState", "InvalidCapacityBlockState", "IncorrectState")
#: It never left this machine.
NEVER_LEFT = (
    failed.EndpointConnectionError,
    failed.ConnectTimeoutError,
    failed.ProxyConnectionError,
    failed.NoCredentialsError,
    failed.PartialCredentialsError,
    failed.TokenRetrievalError,
    failed.NoRegionError,
    failed.ProfileNotFound,
)


@contextmanager
def as_provider_errors(*, spends: bool) -> Iterator[None]:
    """Raise a ProviderError for whatever the client raises inside."""
    try:
        yield
    except failed.ClientError as error:
        raise _answered(error, spends) from error
    except NEVER_LEFT as error:
        raise NotSent(_line(error)) from error
    except failed.ParamValidationError as error:
        raise Refused("ParamValidation", _line(error)) from error
    except (failed.BotoCoreError, failed.HTTPClientError, OSError) as error:
        raise (Unclear if spends else NotSent)(_line(error)) from error


def _answered(error: failed.ClientError, spends: bool) -> ProviderError:
    told = error.response.get("Error", {})
    code, message = str(told.get("Code", "")), str(told.get("Message", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) or 0)
    if code in SHORT:
        return NoCapacity(code, message)
    if code.endswith(".NotFound") or code in GONE:
        return Expired(code, message)
    if code in THROTTLED and 400 <= status < 500:
        return NotSent(f"{code}: {message}")
    if status >= 500 or not code:
        return (Unclear if spends else NotSent)(f"{code or status}: {message}")
    if code in THROTTLED:
        return NotSent(f"{code}: {message}")
    return Refused(code, message)


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
