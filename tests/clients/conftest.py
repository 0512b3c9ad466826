"""Stages for the client tests: one for each kind of upstream and worker, made when first asked for."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from tests.clients.stage import Stage
from tests.clients.upstreams import KINDS

StageOf = Callable[[str | None], Awaitable[Stage]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def stage_of(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[StageOf]:
    """The stage with that kind of upstream; None is the scripted model without a gateway."""
    stages: dict[str | None, Stage] = {}

    async def stage(name: str | None) -> Stage:
        if name not in stages:
            stages[name] = await Stage(tmp_path_factory.mktemp("stage"), KINDS[name] if name else None).open()
        return stages[name]

    yield stage
    for opened in stages.values():
        await opened.close()
