"""Small trained tokenizers, and strings that tokenizers trip over."""

import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

HOSTILE = [
    "",
    " ",
    "Hello world",
    "  double  spaces \n\n\t tabs\r\n  x ",
    "12345 6 78 3.14 1_000",
    "don't WON'T it's I'LL",
    "naïve café Ünïcödé ﬁ ß İ",
    "e\u0301 combining and é composed",
    "日本語テキスト 한국어 中文。",
    "مرحبا بالعالم שלום",
    "👩‍👩‍👧‍👦 family 🇩🇪 👍🏽",
    "\u200b\ufeff zero width \u202e rtl",
    "a\x00b\x7f\x1b[0m",
    "\ud7ff\ue000\ufffd\U0010ffff",
    "١٢٣ ½ Ⅷ ² 四",
    "<|im_start|>user\nhi<|im_end|> <|im_end",
    "x" * 200 + " " * 50 + "\n" * 10,
]

CORPUS = [*HOSTILE, "the quick brown fox jumps over the lazy dog, don't you think? " * 3] * 2
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_level() -> Tokenizer:
    """Like that of Qwen2: composed characters, its own regular expression, every byte a token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=SPECIAL
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_tokens([AddedToken("two words", normalized=False)])
    return tokenizer


def sentencepiece_like() -> Tokenizer:
    """Like that of Llama 2: a mark for spaces, and bytes for what is not in the vocabulary."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        special_tokens=["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))],
        limit_alphabet=60,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = state["added_tokens"][:3]  # a byte is no special token
    return Tokenizer.from_str(json.dumps(state))


def saved_tokenizer(folder: Path, tokenizer: Tokenizer, **settings: Any) -> PreTrainedTokenizerFast:
    """What transformers makes of a tokenizer, after it was saved into the folder."""
    theirs = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|im_end|>", **settings
    )
    theirs.save_pretrained(folder)
    return theirs
