"""The EC2 query protocol, both ways, by botocore's own service model: forms in, XML out.

What the installed model does not know of an answer (a member newer than it) is left out, as a client of that
age would not read it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

import botocore.session
import botocore.utils

from tenure.providers.fake_ec2.faults import Ec2Error

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


@cache
def model() -> Any:
    """The service model of the installed botocore."""
    return botocore.session.get_session().get_service_model("ec2")


def parse(body: str) -> tuple[str, dict[str, Any]]:
    """(action, parameters) of a form."""
    flat = dict(parse_qsl(body, keep_blank_values=True))
    action = flat.pop("Action", "")
    if action not in model().operation_names:
        raise Ec2Error("InvalidAction", f"The action {action} is not valid for this web service")
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        at = tree
        *path, last = key.split(".")
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    shape = model().operation_model(action).input_shape
    return action, _value(shape, tree) if shape is not None else {}


def _query_name(shape: Any, name: str) -> str:
    told = shape.serialization
    if "queryName" in told:
        return str(told["queryName"])
    named = str(told.get("name", name))
    return named[0].upper() + named[1:]


def _value(shape: Any, found: Any) -> Any:
    kind = shape.type_name
    if kind == "structure":
        told = {}
        for name, member in shape.members.items():
            key = _query_name(member, name)
            if key in found:
                told[name] = _value(member, found[key])
        return told
    if kind == "list":
        return [_value(shape.member, found[key]) for key in sorted(found, key=int)]
    if kind in ("integer", "long"):
        return int(found)
    if kind in ("float", "double"):
        return float(found)
    if kind == "boolean":
        return found == "true"
    if kind == "timestamp":
        return botocore.utils.parse_timestamp(found)
    return found


def answer(action: str, told: Mapping[str, Any]) -> bytes:
    """The XML of a good answer."""
    shape = model().operation_model(action).output_shape
    inner = _xml(shape, told) if shape is not None else "<return>true</return>"
    text = (
        f'<?xml version="1.0" encoding="UTF-8"?><{action}Response xmlns="{NAMESPACE}">'
        f"<requestId>{uuid.uuid4()}</requestId>{inner}</{action}Response>"
    )
    return text.encode()


def refusal(error: Ec2Error) -> bytes:
    """The XML of a no."""
    text = (
        '<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error>'
        f"<Code>{escape(error.code)}</Code><Message>{escape(error.message)}</Message>"
        f"</Error></Errors><RequestID>{uuid.uuid4()}</RequestID></Response>"
    )
    return text.encode()


def _xml(shape: Any, value: Any) -> str:
    kind = shape.type_name
    if kind == "structure":
        parts = []
        for name, member in shape.members.items():
            if value.get(name) is not None:
                tag = member.serialization.get("name", name)
                parts.append(f"<{tag}>{_xml(member, value[name])}</{tag}>")
        return "".join(parts)
    if kind == "list":
        tag = shape.member.serialization.get("name", "item")
        return "".join(f"<{tag}>{_xml(shape.member, one)}</{tag}>" for one in value)
    if kind == "timestamp":
        return _stamp(value)
    if kind == "boolean":
        return "true" if value else "false"
    return escape(str(value))


def _stamp(value: datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
