"""The models of a server, and the queue of requests for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from goodformer.errors import InputError, check_name, unknown
from goodformer.fitted import FittedModel
from goodformer.serve.guard import Receive, Refused
from goodformer.serve.jobs import Job
from goodformer.serve.limits import Limits
from goodformer.serve.metrics import Metrics
from goodformer.serve.rows import FORM_OF, FORMS, RequestRows, check_rows, recognised
from goodformer.serve.schema import RowsBody
from goodformer.serve.worker import Busy, Worker

JSON, EXAMPLE = "application/json", '{"smiles": ["CCO"]} or {"graphs": [{"edges": [[0, 1]]}]}'


class Service:
    """Some models, and one worker that answers all requests.

    Args:
        models: The models by the names that requests use.
        limits: What a request may ask for.
    """

    def __init__(self, models: Mapping[str, FittedModel], limits: Limits) -> None:
        self.models, self.limits = models, limits
        self.worker = Worker(limits.waiting, self._count)
        self.metrics = Metrics(self.worker.__len__)

    def _count(self, job: Job, rows: int) -> None:
        self.metrics.rows.labels(job.name).inc(rows)
        self.metrics.turns.observe(rows)

    def model(self, name: str | None) -> tuple[str, FittedModel]:
        """Return a model with its name; without a name, the only one."""
        if name is None and len(self.models) > 1:
            raise Refused(422, f"this server has several models; add ?model=NAME, one of {', '.join(self.models)}.")
        name = name or next(iter(self.models))
        if name not in self.models:
            raise Refused(404, str(unknown("model", name, self.models)))
        return name, self.models[name]

    def rows(self, model: FittedModel, body: bytes, kind: str, form: str | None, smiles: str | None) -> RequestRows:
        """Return the rows of a request.

        Args:
            model: The model that reads them.
            body: JSON or the text of a file.
            kind: Content type; everything but JSON is the text of a file.
            form: Format of the file; by default that of the content type, otherwise recognised.
            smiles: Column of the SMILES; by default that of the training file.
        """
        if form is not None:
            check_name("format", form, FORMS)
        kind = kind.partition(";")[0].strip().lower()
        if kind != JSON:
            form = form or FORM_OF.get(kind) or recognised(body, self._columns(smiles))
            return RequestRows(model, body, self.limits, form, smiles)
        try:
            given = RowsBody.model_validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            reason = f"{where}: {first['msg']}" if where else first["msg"]
            raise InputError(f"the request does not hold rows ({reason}); send {EXAMPLE}.") from None
        if (given.smiles is None) == (given.graphs is None):
            raise InputError(f"the request needs either smiles or graphs; send {EXAMPLE}.")
        if given.smiles is not None:
            check_rows(len(given.smiles), self.limits)
            return RequestRows(model, given.smiles, self.limits)
        lines = "\n".join(map(json.dumps, given.graphs or ()))
        return RequestRows(model, lines.encode(), self.limits, "jsonl", smiles)

    def _columns(self, smiles: str | None) -> set[str]:
        """Return the SMILES columns that a table may have; those of all models, which read one text in one format."""
        return {smiles} if smiles else {model.smiles for model in self.models.values() if model.smiles}

    async def answer(self, job: Job, receive: Receive) -> dict[str, Any]:
        """Return the answer to a job when the worker has finished it; drop the job if the client goes away.

        Args:
            job: The rows of one request.
            receive: Returns what else the client sends; after the request, only that it went away.
        """
        gone = asyncio.create_task(left(receive))
        gone.add_done_callback(lambda _: job.done.cancel())  # no effect on a job that is done
        try:
            self.worker.submit(job)
            async with asyncio.timeout(self.limits.seconds):
                return await asyncio.wrap_future(job.done)
        except asyncio.CancelledError:
            if gone.done():
                raise Refused(499, "the client went away.") from None
            raise
        except Busy:
            sentence = f"{self.limits.waiting} requests are waiting already; send it again later."
            raise Refused(503, sentence, retry_after="1") from None
        except TimeoutError:
            sentence = f"there was no answer within {self.limits.seconds:g} s; send fewer rows at a time."
            raise Refused(504, sentence) from None
        finally:
            gone.cancel()


async def left(receive: Receive) -> None:
    """Return when the client has closed its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
