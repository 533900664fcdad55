"""Token sequences as keyed hashes of their blocks: what a recorder may write down of them.

It must not know files or requests.
"""

from radixcache.namespace import Namespace, namespace_key
from radixcache.tokens import TOKEN_BYTES
from runtime.workload.traces.keyed import KeyedHash, text_of


class BlockHasher:
    """Hashes blocks, each together with all that stands before it.

    Namespaces are part of the hash, so that a file does not tell what tenants have in common.

    Args:
        key: The secret.
        block_size: Tokens a block.
    """

    def __init__(self, key: KeyedHash, block_size: int) -> None:
        self._key = key
        self._block_bytes = block_size * TOKEN_BYTES

    def hashes(self, prompt: bytes, output: bytes, namespace: Namespace) -> tuple[list[str], list[str]]:
        """What a line holds of a request.

        Args:
            prompt: Its tokens, little-endian int32.
            output: Those it generated.
            namespace: Its namespace.

        Returns:
            Hashes of the blocks of the prompt, and of those of prompt and output together from the block on
            in which the prompt ends, as far as that is not full.

        Complexity:
            O(tokens); about a microsecond a block.
        """
        width = self._block_bytes
        full = len(prompt) // width * width
        root = self._key.root(namespace_key(namespace))
        known = self._key.chain((prompt[at : at + width] for at in range(0, full, width)), root)
        parent = known[-1] if known else root
        tail = prompt[full:]
        partial = self._key.chain([tail], parent) if tail else []
        behind = tail + output
        blocks = (behind[at : at + width] for at in range(0, len(behind), width))
        added = self._key.chain(blocks, parent) if output else partial
        return [*map(text_of, known), *map(text_of, partial)], [*map(text_of, added)]
