"""The engine: requests in, tokens and texts out."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from radixcache import Namespace, NullPrefixCache, PrefixCache
from radixcache.errors import InvalidConfig
from radixcache.namespace import namespace_key
from runtime.clock import Clock, seconds
from runtime.engine.answer import AnswerText
from runtime.engine.completion import Chunk, Completion, FinishReason
from runtime.engine.errors import PromptError
from runtime.engine.executor import TorchExecutor
from runtime.engine.isolation import execute_isolated
from runtime.engine.sampling import Sampler, SamplingParams
from runtime.executor import Executor
from runtime.models import Decoder, TextCodec
from scheduler import PlanError, Request, RequestState, Scheduler, SchedulerConfig

Prompt = str | Sequence[int]

_ENDS = {
    RequestState.FINISHED: FinishReason.LENGTH,
    RequestState.ABORTED: FinishReason.ABORT,
    RequestState.FAILED: FinishReason.ERROR,
    RequestState.EXPIRED: FinishReason.DEADLINE,
}


@dataclass(slots=True)
class _Live:
    """A request that has not ended, and what the engine adds to it."""

    request: Request
    params: SamplingParams
    answer: AnswerText
    stopped_by: FinishReason | None = None


@dataclass(slots=True)
class _Inbox:
    """Chunks that somebody waits for within `generate` or `stream`."""

    chunks: deque[Chunk] = field(default_factory=deque)
    completion: Completion | None = None


class Engine:
    """Serves requests on one model: scheduler, prefix cache, executor and sampler in one loop.

    One thread. Between calls of `step`, `generate` or `stream` nothing happens. A step that raises is run
    again row by row: only the requests whose rows raise then fail, and everybody else goes on.

    Args:
        cache: Finds prefixes and hands out pages; `NullPrefixCache` for none.
        executor: Runs plans.
        sampler: The executor's; learns what each request wants.
        clock: Tells the time.
        config: Of the scheduler; `None`: as it is by default.
        text: Tokenizer of the model; `None`: prompts are token ids, and completions have no text.
        eos_ids: Tokens that end an output, besides those of `text`.
        max_context: Tokens of prompt and output together at most; `None`: as the pool holds.
    """

    def __init__(
        self,
        cache: PrefixCache,
        executor: Executor,
        sampler: Sampler,
        clock: Clock,
        *,
        config: SchedulerConfig | None = None,
        text: TextCodec | None = None,
        eos_ids: frozenset[int] = frozenset(),
        max_context: int | None = None,
    ) -> None:
        self.cache = cache
        self.text = text
        self.scheduler = Scheduler(cache, config or SchedulerConfig())
        self._executor = executor
        self._sampler = sampler
        self._clock = clock
        self._eos_ids = eos_ids | (text.eos_ids if text else frozenset())
        self._max_context = max_context
        self._live: dict[str, _Live] = {}
        self._inboxes: dict[str, _Inbox] = {}
        self._outbox: list[Chunk] = []
        self._num_added = 0
        self._epoch = 0
        self._namespaces: set[Namespace] = set()

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits or runs."""
        return self.scheduler.is_idle

    @property
    def caches(self) -> bool:
        """Whether prefixes are cached at all."""
        return not isinstance(self.cache, NullPrefixCache)

    @property
    def max_request_tokens(self) -> int:
        """Tokens of prompt and output together that a request may have: the model's context, or the pool."""
        pool = self.cache.config.num_pages * self.cache.config.page_size
        return pool if self._max_context is None else min(pool, self._max_context)

    # Coming and going

    def add_request(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        request_id: str | None = None,
        namespace: Namespace = None,
        priority: int = 0,
        client: str | None = None,
        deadline_s: float | None = None,
        read: bool = True,
        write: bool = True,
    ) -> str:
        """Let a request wait; `step` brings its chunks.

        Args:
            prompt: Text, or token ids.
            params: What it wants; `None`: as they are by default.
            request_id: A name that no live request has; `None`: one is made up.
            namespace: Whose KV it may share, see `radixcache.Namespace`: adapter, tenant salt. Model and
                weight epoch are the engine's own business.
            priority: See `Request`.
            client: See `Request`.
            deadline_s: Seconds after which it is not worth starting.
            read: `False`: use no cached prefix.
            write: `False`: leave nothing in the cache.

        Returns:
            The request's id.

        Raises:
            PromptError: A text without a tokenizer, or a prompt that leaves the context no room for output.
            RadixCacheError: See `Request` and `Scheduler.submit`. Nothing changed.
        """
        params = params or SamplingParams()
        token_ids = self._token_ids(prompt)
        name = f"request-{self._num_added}" if request_id is None else request_id
        now = self._now()
        request = Request.of(
            name,
            token_ids,
            self._room_for_output(len(token_ids), params),
            namespace=self._namespace(namespace),
            read=read and not params.prompt_logprobs,
            write=write,
            priority=priority,
            client=client,
            deadline=None if deadline_s is None else now + deadline_s,
        )
        self.scheduler.submit(request, now)
        self._num_added += 1
        self._namespaces.add(request.namespace)
        self._sampler.add(name, params)
        stream = self.text.stream() if self.text else None
        self._live[name] = _Live(request, params, AnswerText(stream, params.stop))
        return name

    def abort(self, request_id: str) -> bool:
        """End a request, in whatever state; its last chunk comes as any other does.

        Returns:
            Whether it was there to be ended.
        """
        live = self._live.get(request_id)
        if live is None:
            return False
        self.scheduler.abort(request_id, self._now())
        self._complete(live, [], "")
        return True

    def reload(self, model: Decoder) -> None:
        """Change the weights. Nothing cached before is found again; who runs finishes and publishes no more.

        Raises:
            InvalidConfig: The engine runs no model, or one of another shape.
        """
        if not isinstance(self._executor, TorchExecutor) or self._executor.model.config != model.config:
            raise InvalidConfig("new weights are of the same shape as the old ones")
        self._executor.model = model
        self.bump_epoch()

    def bump_epoch(self) -> None:
        """Say that KV computed from now on differs from what is cached. See `reload`."""
        self._epoch += 1
        for namespace in self._namespaces:
            self.cache.retire(namespace)
        self._namespaces.clear()

    # Going on

    def step(self) -> list[Chunk]:
        """Compute one step.

        Returns:
            What it brought for requests of `add_request`; each request's last chunk has its completion.

        Raises:
            Stalled: See `Scheduler.schedule`.
        """
        self._run_step()
        chunks, self._outbox = self._outbox, []
        return chunks

    def generate(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        namespace: Namespace = None,
    ) -> list[Completion]:
        """Serve requests to their end, side by side with whoever else is there.

        Args:
            prompts: Texts or token ids.
            params: One for all, or one for each.
            namespace: See `add_request`.

        Returns:
            A completion for each prompt, in order.

        Raises:
            InvalidConfig: Not as many `params` as prompts.
            RadixCacheError: See `add_request`; none of them is served then.
        """
        if isinstance(prompts, str):
            raise PromptError("generate takes a list of prompts; a single one stands in a list, too")
        each = [params] * len(prompts) if isinstance(params, SamplingParams | None) else list(params)
        if len(each) != len(prompts):
            raise InvalidConfig(f"{len(prompts)} prompts need as many params, got {len(each)}")
        names: list[str] = []
        try:
            for prompt, wanted in zip(prompts, each, strict=True):
                names.append(self._add_awaited(prompt, wanted, namespace))
            while any(self._inboxes[name].completion is None for name in names):
                self._run_step()
            return [completion for name in names if (completion := self._inboxes[name].completion)]
        finally:
            self._forget(names)

    def stream(
        self, prompt: Prompt, params: SamplingParams | None = None, *, namespace: Namespace = None
    ) -> Iterator[Chunk]:
        """Serve one request and give what it brings as it comes; giving up the iterator aborts it.

        Raises:
            RadixCacheError: See `add_request`.
        """
        name = self._add_awaited(prompt, params, namespace)
        try:
            inbox = self._inboxes[name]
            while inbox.completion is None:
                self._run_step()
                while inbox.chunks:
                    yield inbox.chunks.popleft()
        finally:
            self._forget([name])

    def _add_awaited(self, prompt: Prompt, params: SamplingParams | None, namespace: Namespace) -> str:
        name = self.add_request(prompt, params, namespace=namespace)
        self._inboxes[name] = _Inbox()
        return name

    def _forget(self, names: Sequence[str]) -> None:
        for name in names:
            self.abort(name)
            del self._inboxes[name]

    def _run_step(self) -> None:
        now = self._now()
        self.cache.advance_time(now)
        plan = self.scheduler.schedule(now)
        for request in plan.failed:
            self._complete(self._live[request.request_id], [], "")
        if not plan:
            return
        try:
            output, errors = execute_isolated(self._executor, plan)
        except BaseException:
            self.scheduler.discard(plan)
            raise
        now = self._now()
        for request_id, error in errors.items():
            self.scheduler.abort(request_id, now, error=error)
        try:
            self.scheduler.commit(plan, output.tokens, now)
        except PlanError:
            self.scheduler.discard(plan)
            raise
        for request_id in errors:
            self._complete(self._live[request_id], [], "")
        for request_id, tokens in output.tokens.items():
            self._take_in(self._live[request_id], list(tokens), now)

    def _take_in(self, live: _Live, tokens: list[int], now: float) -> None:
        request, text = live.request, ""
        for token in tokens:
            if self._is_stop(token, live.params):
                live.stopped_by = FinishReason.STOP_TOKEN
                break
            more, stopped = live.answer.push(token)
            text += more
            if stopped:
                live.stopped_by = FinishReason.STOP_TEXT
                break
        if live.stopped_by and request.state is RequestState.RUNNING:
            self.scheduler.finish(request.request_id, now)
        if request.state is RequestState.FINISHED:
            if live.stopped_by is not FinishReason.STOP_TEXT:
                more, stopped = live.answer.finish()
                text += more
                live.stopped_by = FinishReason.STOP_TEXT if stopped else live.stopped_by
            self._complete(live, tokens, text)
        else:
            self._hand_out(Chunk(request_id=request.request_id, token_ids=tokens, text=text))

    def _is_stop(self, token: int, params: SamplingParams) -> bool:
        is_eos = token in self._eos_ids and not params.ignore_eos
        return is_eos or token in params.stop_token_ids

    def _complete(self, live: _Live, tokens: list[int], text: str) -> None:
        request = live.request
        name = request.request_id
        del self._live[name]
        self._sampler.drop(name)
        submitted_at, finished_at = request.submitted_at, request.finished_at
        assert submitted_at is not None
        assert finished_at is not None
        logprobs = None
        if isinstance(self._executor, TorchExecutor):
            logprobs = self._executor.take_prompt_logprobs(name)
        completion = Completion(
            request_id=name,
            finish_reason=live.stopped_by or _ENDS[request.state],
            prompt_tokens=request.prompt_len,
            token_ids=list(request.output),
            text=live.answer.text,
            cached_tokens=request.matched_len + request.copied_len,
            computed_tokens=request.prefill_tokens,
            recomputed_tokens=request.recomputed_tokens,
            missed_tokens=dict(request.missed_tokens),
            cache_read=request.read and self.caches,
            prompt_logprobs=logprobs,
            preemptions=request.num_preemptions,
            queue_s=_since(submitted_at, request.first_scheduled_at),
            ttft_s=_since(submitted_at, request.first_token_at),
            e2e_s=finished_at - submitted_at,
            error=request.error,
        )
        self._hand_out(Chunk(request_id=name, token_ids=tokens, text=text, completion=completion))

    def _hand_out(self, chunk: Chunk) -> None:
        inbox = self._inboxes.get(chunk.request_id)
        if inbox is None:
            self._outbox.append(chunk)
        else:
            inbox.chunks.append(chunk)
            inbox.completion = chunk.completion

    # What a request becomes

    def _token_ids(self, prompt: Prompt) -> Sequence[int]:
        if not isinstance(prompt, str):
            return prompt
        if self.text is None:
            raise PromptError("this engine has no tokenizer: give the prompt as token ids")
        return self.text.encode(prompt)

    def _room_for_output(self, prompt_len: int, params: SamplingParams) -> int:
        if self._max_context is None:
            return params.max_new_tokens
        room = self._max_context - prompt_len
        if room < 1:
            raise PromptError(
                f"the prompt has {prompt_len} tokens, the model's context of {self._max_context} leaves no "
                "room for output"
            )
        return min(room, params.max_new_tokens)

    def _namespace(self, namespace: Namespace) -> Namespace:
        return f"epoch {self._epoch}", namespace_key(namespace)

    def _now(self) -> float:
        return seconds(self._clock.now_ps())


def _since(start: float, moment: float | None) -> float | None:
    return None if moment is None else moment - start
