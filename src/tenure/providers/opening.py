"""The provider that a run's file names, ready to be asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenure.providers.protocol import Clock, Provider
from tenure.settings.errors import BadInput
from tenure.settings.provider_access import AwsAccess, ManualAccess, OwnAccess, provider_access
from tenure.settings.run_file import Run


def is_here(endpoint: str) -> bool:
    """A cloud on this machine (`python -m tenure.providers.fake_ec2`): it asks for no real credentials."""
    return endpoint.startswith(("http://127.0.0.1:", "http://localhost:"))


def provider_for(run: Run, clock: Clock, *, client: Any = None) -> Provider:
    """The provider of a run's file. `client`: in place of boto3's. Raises BadInput."""
    access = provider_access(run.file.provider)
    if isinstance(access, OwnAccess) and access.by == "lab":
        from tenure.client import Client
        from tenure.providers.protections import Protections

        state = run.folder / access.state
        size = run.plan.gpus_per_node
        return Protections(Client(access.url), run.file.run, run.nodes, size, state, clock)
    return provider_of(run.file.provider, run.folder, clock, client=client)


def provider_of(told: Mapping[str, Any], folder: Path, clock: Clock, *, client: Any = None) -> Provider:
    """
    The provider of the mapping `provider`. `folder`: where its relative paths start; `client`: in place of
    boto3's (`fake_ec2.Direct`). Raises BadInput.
    """
    access = provider_access(told)
    if isinstance(access, ManualAccess):
        from tenure.providers.manual import Manual

        return Manual(folder / access.file, clock)
    if isinstance(access, OwnAccess):
        return _own(access, folder, clock)
    return _aws(access, clock, client)


def _own(access: OwnAccess, folder: Path, clock: Clock) -> Provider:
    state = folder / access.state
    if access.by == "slurm":
        from tenure.providers.own import Own
        from tenure.providers.own_reserving import SlurmReserving

        return Own(SlurmReserving(access.user), access.nodes, access.gpus_per_node, state, clock)
    if access.by == "lab":
        raise BadInput("run", "provider.by", "lab", "a run's file, whose job it is")
    from tenure.client import Client
    from tenure.providers.own import Own
    from tenure.providers.own_reserving import TenureReserving

    return Own(TenureReserving(Client(access.url)), access.nodes, access.gpus_per_node, state, clock)


def _aws(access: AwsAccess, clock: Clock, client: Any) -> Provider:
    try:
        from tenure.providers.aws import Aws, AwsSettings
    except ModuleNotFoundError:
        allowed = "boto3 beside Tenure: pip install 'tenure[aws]'"
        raise BadInput("run", "provider.name", "aws, and no boto3 here", allowed) from None

    gpus = {} if access.gpus_per_node is None else {access.instance_type: access.gpus_per_node}
    settings = AwsSettings(
        region=access.region,
        image=access.image,
        instance_type=access.instance_type,
        subnets=access.subnets,
        platform=access.platform,
        launch=access.launch,
        profile=access.profile,
        endpoint=access.endpoint,
        credentials=("rehearsal", "rehearsal") if is_here(access.endpoint) else None,
        connect_timeout_s=access.connect_timeout,
        read_timeout_s=access.read_timeout,
        gpus_per_node=gpus,
    )
    return Aws(settings, clock, client)
