"""The life of a request, as an engine drives it."""

from radixcache import PrefixCache, Tokens


def serve(cache: PrefixCache, prompt: Tokens, output: Tokens | None = None) -> int:
    """Open, reserve, advance, append the output in one call, close; returns the matched tokens."""
    seq = cache.open(prompt)
    matched_len = seq.matched_len
    num_new = len(prompt) - matched_len
    if output is None:
        seq.reserve(num_new)
        seq.advance(num_new)
    else:
        num_outputs = len(output)
        seq.reserve(num_new + num_outputs)
        seq.advance(num_new)
        seq.append(output)
        seq.advance(num_outputs)
    seq.close()
    return matched_len


def serve_uncached(cache: PrefixCache, prompt: Tokens, output: Tokens) -> int:
    """The same without a cache: nothing is matched and nothing published."""
    num_new, num_outputs = len(prompt), len(output)
    seq = cache.open(prompt, read=False, write=False)
    matched_len = seq.matched_len
    seq.reserve(num_new + num_outputs)
    seq.advance(num_new)
    seq.append(output)
    seq.advance(num_outputs)
    seq.close()
    return matched_len
