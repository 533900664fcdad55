"""The engine: requests in, tokens and texts out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias, TypeVar

from radixcache import Namespace, NullPrefixCache, PrefixCache, Tokens
from radixcache.arguments import as_seconds
from radixcache.errors import InvalidConfig
from radixcache.namespace import namespace_key
from radixcache.observer_errors import ObserverErrors
from radixcache.tokens import TokenSource
from runtime.clock import Clock, seconds
from runtime.engine.answer import AnswerText
from runtime.engine.completion import Chunk, Completion
from runtime.engine.errors import PromptError
from runtime.engine.executor import TorchExecutor
from runtime.engine.isolation import execute_isolated
from runtime.engine.live import EndedRequests, LiveRequest
from runtime.engine.sampling import Sampler, SamplingParams
from runtime.executor import Executor
from runtime.models import Decoder, TextCodec
from scheduler import Interrupted, PlanError, Request, RequestState, Scheduler, SchedulerConfig, StepPlan
from scheduler.plan import Outputs

Prompt: TypeAlias = "str | TokenSource"
"""A text, or token ids."""


class Engine:
    """Serves requests on one model: scheduler, prefix cache, executor and sampler in one loop.

    One thread. Between calls of `step`, `generate` or `stream` nothing happens. A row whose logits are no
    numbers fails its request alone, and the others keep what the step brought. A step that raises, or brings
    what its plan does not allow, is run again row by row: only the requests whose rows do so then fail, and
    everybody else goes on. So does everybody else where a tokenizer cannot decode what a request generated.

    Args:
        cache: Finds prefixes and hands out pages; `NullPrefixCache` for none.
        executor: Runs plans.
        sampler: The executor's; learns what each request wants.
        clock: Tells the time; where it goes back, time stands still.
        config: Of the scheduler; `None`: as it is by default.
        text: Tokenizer of the model; `None`: prompts are token ids, and completions have no text.
        eos_ids: Tokens that end an output, besides those of `text`.
        max_context: Tokens of prompt and output together at most; `None`: as the pool holds.
        vocab_size: Token ids of prompts lie below it; `None`: they are not looked at.
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
        vocab_size: int | None = None,
    ) -> None:
        self.cache = cache
        self.text = text
        self.scheduler = Scheduler(cache, config or SchedulerConfig())
        self._executor = executor
        self._sampler = sampler
        self._clock = clock
        self._eos_ids = eos_ids | (text.eos_ids if text else frozenset())
        self._max_context = max_context
        self._vocab_size = vocab_size
        self._live: dict[str, LiveRequest] = {}
        self._ended = EndedRequests()
        self.scheduler.subscribe(self._ended)
        self._outbox: list[Chunk] = []
        self._num_named = 0
        self._epoch = 0
        self._time = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether nobody waits or runs, and `step` has given every chunk."""
        return self.scheduler.is_idle and not self._ended and not self._outbox

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
            PromptError: A text or stop texts without a tokenizer, a token id that the model does not have, or
                a prompt that leaves the context no room for output. Nothing changed.
            RadixCacheError: See `Tokens`, `Request` and `Scheduler.submit`. Nothing changed.
        """
        live = self._add(
            prompt,
            params,
            awaited=False,
            request_id=request_id,
            namespace=namespace,
            priority=priority,
            client=client,
            deadline_s=deadline_s,
            read=read,
            write=write,
        )
        return live.request.request_id

    def _add(
        self,
        prompt: Prompt,
        params: SamplingParams | None,
        *,
        awaited: bool,
        request_id: str | None = None,
        namespace: Namespace = None,
        priority: int = 0,
        client: str | None = None,
        deadline_s: float | None = None,
        read: bool = True,
        write: bool = True,
    ) -> LiveRequest:
        params = params or SamplingParams()
        tokens = self._tokens(prompt)
        if params.stop and self.text is None:
            raise PromptError("stop texts need a tokenizer, this engine has none: give stop_token_ids")
        answer = AnswerText(self.text.stream() if self.text else None, params.stop)
        stops = frozenset(params.stop_token_ids) | (frozenset() if params.ignore_eos else self._eos_ids)
        now = self._now()
        request = Request.of(
            self._new_name() if request_id is None else request_id,
            tokens,
            self._room_for_output(len(tokens), params),
            namespace=self._namespace(namespace),
            read=read and not params.prompt_logprobs,
            write=write,
            priority=priority,
            client=client,
            deadline=None if deadline_s is None else now + as_seconds("deadline_s", deadline_s),
        )
        self._submit(request, now)
        self._sampler.add(request.request_id, params)
        live = self._live[request.request_id] = LiveRequest(request, params, stops, answer, awaited)
        return live

    def _submit(self, request: Request, now: float) -> None:
        try:
            self.scheduler.submit(request, now)
        except BaseException:
            if request.state is RequestState.WAITING:  # an observer raised: nobody would ask for it
                with suppress(Exception):
                    self.abort(request.request_id)
            raise

    def _new_name(self) -> str:
        while True:
            name, self._num_named = f"request-{self._num_named}", self._num_named + 1
            if name not in self._live:
                return name

    def abort(self, request_id: str) -> bool:
        """End a request, in whatever state; its last chunk comes as any other does.

        Returns:
            Whether it was there to be ended.
        """
        try:
            return self.scheduler.abort(request_id, self._now())
        finally:
            self._complete_ended()

    def reload(self, model: Decoder) -> None:
        """Change the weights. Nothing cached before is found again; who runs finishes and publishes no more.

        Who waits, or is thrown back, is computed with the new weights from its first token on.

        Raises:
            InvalidConfig: The engine runs no model, or one of another shape, dtype or device.
        """
        if not isinstance(self._executor, TorchExecutor):
            raise InvalidConfig("this engine runs no model whose weights could change")
        old = self._executor.model
        if model.config != old.config:
            raise InvalidConfig(f"new weights are of the same shape as the old ones, {old.config}")
        if (model.dtype, model.device) != (old.dtype, old.device):
            raise InvalidConfig(
                f"new weights are {old.dtype} on {old.device} as the old ones, "
                f"got {model.dtype} on {model.device}"
            )
        self._executor.model = model
        self.bump_epoch()

    def bump_epoch(self) -> None:
        """Say that KV computed from now on differs from what is cached. See `reload`. O(cached tokens)."""
        self._epoch += 1
        cached = [stored.namespace for stored in self.cache.snapshot().stored]
        used = [live.request.namespace for live in self._live.values()]
        for namespace in dict.fromkeys([*cached, *used]):
            self.cache.retire(namespace)

    # Going on

    def step(self) -> list[Chunk]:
        """Compute one step.

        Returns:
            What it brought for requests of `add_request`; each request's last chunk has its completion.

        Raises:
            Stalled: See `Scheduler.schedule`.
            Interrupted: A call of the scheduler broke off halfway, see `Scheduler`: make the engine anew.
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
        awaited: list[LiveRequest] = []
        try:
            for prompt, wanted in zip(prompts, each, strict=True):
                awaited.append(self._add(prompt, wanted, awaited=True, namespace=namespace))
            while any(live.completion is None for live in awaited):
                self._run_step()
            return [live.completion for live in awaited if live.completion]
        finally:
            self._give_up(awaited)

    def stream(
        self, prompt: Prompt, params: SamplingParams | None = None, *, namespace: Namespace = None
    ) -> Iterator[Chunk]:
        """Serve one request and give what it brings as it comes; giving up the iterator aborts it.

        The request is added when the first chunk is asked for: an iterator that nobody asks leaves nothing.

        Raises:
            RadixCacheError: See `add_request`; when the first chunk is asked for.
        """
        live = self._add(prompt, params, awaited=True, namespace=namespace)
        try:
            while live.completion is None:
                self._run_step()
                while live.chunks:
                    yield live.chunks.popleft()
        finally:
            self._give_up([live])

    def _give_up(self, awaited: Sequence[LiveRequest]) -> None:
        with suppress(Interrupted):  # what interrupted is on its way already
            _for_each(self.abort, [live.request.request_id for live in awaited if live.completion is None])

    def _run_step(self) -> None:
        try:
            self._advance()
        finally:
            self._complete_ended()

    def _advance(self) -> None:
        now = self._now()
        self.cache.advance_time(now)
        plan = None
        try:
            plan = self.scheduler.schedule(now)
            if not plan:
                return
            tokens, errors = execute_isolated(self._executor, plan)
            now = self._now()
            for request, error in errors.items():
                self._fail(request, error, now)
            self._commit(plan, tokens, now)
        except BaseException:
            if plan is not None:
                with suppress(PlanError, Interrupted):  # taken in already, or nobody can tell
                    self.scheduler.discard(plan)
            raise

    def _commit(self, plan: StepPlan, outputs: Outputs, now: float) -> None:
        """Commit, and take in what it brought, also where an observer raised while it did."""
        try:
            self.scheduler.commit(plan, outputs, now)
        except Exception:
            with suppress(Exception):  # the first is on its way already
                self._take_in_all(plan, now)
            raise
        self._take_in_all(plan, now)

    def _take_in_all(self, plan: StepPlan, now: float) -> None:
        lives = (self._live_of(row.request) for row in plan.rows)
        _for_each(
            lambda live: self._take_in(live, now),
            [live for live in lives if live is not None and live.num_read < len(live.request.output)],
        )

    def _live_of(self, request: Request) -> LiveRequest | None:
        """What the engine knows of a request; `None` if that ended, whoever bears its name now."""
        live = self._live.get(request.request_id)
        return live if live is not None and live.request is request else None

    def _fail(self, request: Request, error: Exception, now: float) -> None:
        if self._live_of(request) is not None:
            self.scheduler.abort(request.request_id, now, error=error)

    def _take_in(self, live: LiveRequest, now: float) -> None:
        request = live.request
        live.read()
        if request.state is RequestState.RUNNING:
            if live.error is not None:
                self._fail(request, live.error, now)
            elif live.stopped_by:
                self.scheduler.finish(request.request_id, now)
        if request.state is RequestState.RUNNING:
            self._hand_out(live)
        else:
            self._complete(live)

    def _complete_ended(self) -> None:
        """Completions of those that the scheduler ended and that have none yet."""
        while self._ended:
            live = self._live_of(self._ended.take())
            if live is not None:
                self._complete(live)

    def _complete(self, live: LiveRequest) -> None:
        name = live.request.request_id
        del self._live[name]
        self._sampler.drop(name)
        executor = self._executor
        logprobs = executor.take_prompt_logprobs(name) if isinstance(executor, TorchExecutor) else None
        live.complete(cached=self.caches, prompt_logprobs=logprobs)
        self._hand_out(live)

    def _hand_out(self, live: LiveRequest) -> None:
        chunk = live.next_chunk()
        (live.chunks if live.awaited else self._outbox).append(chunk)

    # What a request becomes

    def _tokens(self, prompt: Prompt) -> Tokens:
        if isinstance(prompt, str):
            if self.text is None:
                raise PromptError("this engine has no tokenizer: give the prompt as token ids")
            prompt = self.text.encode(prompt)
        tokens = prompt if isinstance(prompt, Tokens) else Tokens(prompt)
        if self._vocab_size is not None and len(tokens):
            place = int(tokens.numpy().argmax())
            if tokens.numpy()[place] >= self._vocab_size:
                raise PromptError(
                    f"token {place} of the prompt is {tokens.numpy()[place]}, the model's token ids are "
                    f"0 to {self._vocab_size - 1}"
                )
        return tokens

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
        self._time = max(self._time, seconds(self._clock.now_ps()))
        return self._time


_T = TypeVar("_T")


def _for_each(act: Callable[[_T], object], items: Iterable[_T]) -> None:
    """Act on all of them, although observers raise meanwhile; the first error goes on then."""
    errors = ObserverErrors()
    for item in items:
        try:
            act(item)
        except Exception as error:  # noqa: BLE001
            errors.note(item, error)
    if errors.noted:
        errors.settle()
