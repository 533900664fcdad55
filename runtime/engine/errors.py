"""What the engine raises on purpose."""

from radixcache import RadixCacheError


class SamplingError(RadixCacheError, ArithmeticError):
    """A model gave logits from which no token can be chosen."""


class PromptError(RadixCacheError, ValueError):
    """A prompt cannot be served: too long for the model, or text where there is no tokenizer."""
