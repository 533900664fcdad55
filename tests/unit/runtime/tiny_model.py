"""A decoder with random weights and a tokenizer of bytes: the commands that run a model, in no time."""

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from runtime.models import Decoder, ModelConfig, TextCodec, random_model
from runtime.models.text import ChatTemplate

END = 257
TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_text(template: str | None = TEMPLATE) -> TextCodec:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={each: number for number, each in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>"])
    return TextCodec(
        tokenizer, eos_ids=frozenset({END}), template=None if template is None else ChatTemplate(template, {})
    )


def tiny_model(max_context: int = 2048) -> Decoder:
    return random_model(
        ModelConfig(
            layers=2,
            hidden=32,
            intermediate=64,
            heads=4,
            kv_heads=2,
            head_dim=8,
            vocab=258,
            max_context=max_context,
        )
    )
