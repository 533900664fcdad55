"""Text of GGUF files: the same tokens as from the tokenizer that the file was made from."""

import json

import gguf
import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from tokenizers.normalizers import NFC

from runtime.models import ModelFileError, UnsupportedModel, load_text
from tests.unit.runtime.models.gguf_files import finish, write_metadata
from tests.unit.runtime.models.tokenizers_of_tests import HOSTILE, SPECIAL, byte_level

LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
SPLITS = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    ),
    "llama-bpe": pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LETTERS + r"|\p{N}{1,3}|" + REST), "isolated"), BYTES]
    ),
    "qwen2": pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(LETTERS + r"|\p{N}|" + REST), "isolated"), BYTES]
    ),
}
"""As the `tokenizer.json` of SmolLM2, Llama 3 and Qwen2 have them."""


def parts():
    state = json.loads(byte_level().to_str())
    vocab = state["model"]["vocab"] | {token["content"]: token["id"] for token in state["added_tokens"]}
    return sorted(vocab, key=vocab.get), [tuple(merge) for merge in state["model"]["merges"]]


def reference(splitting):
    tokens, merges = parts()
    vocab = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=splitting == "llama-bpe"))
    tokenizer.pre_tokenizer = SPLITS[splitting]
    tokenizer.decoder = decoders.ByteLevel()
    if splitting == "qwen2":
        tokenizer.normalizer = NFC()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(["two words"])
    return tokenizer


def write(path, **changes):
    tokens, merges = parts()
    kinds = [3 if token in SPECIAL else 4 if token == "two words" else 1 for token in tokens]
    values = {
        "model": "gpt2", "pre": "qwen2", "tokens": tokens, "token_type": kinds,
        "merges": [" ".join(merge) for merge in merges], "eos_token_id": 2, "bos_token_id": 0,
    } | changes  # fmt: skip
    writer = gguf.GGUFWriter(path, "llama")
    template = values.pop("chat_template", None)
    write_metadata(writer, {f"tokenizer.ggml.{name}": value for name, value in values.items()})
    write_metadata(writer, {"tokenizer.chat_template": template})
    return finish(writer, path)


@pytest.mark.parametrize("splitting", SPLITS)
def test_tokens_are_those_of_the_tokenizer_the_file_was_made_from(splitting, tmp_path):
    codec = load_text(write(tmp_path / "model.gguf", pre=splitting))
    theirs = reference(splitting)
    for text in [*HOSTILE, "1234567 two words  two wordss<|im_end|>"]:
        ids = theirs.encode(text).ids
        assert codec.encode(text) == ids, text
        assert codec.decode(ids, skip_special_tokens=False) == theirs.decode(ids, skip_special_tokens=False)
        assert codec.decode(ids) == theirs.decode(ids)


def test_ways_to_split_differ_where_they_should(tmp_path):
    codecs = {name: load_text(write(tmp_path / name, pre=name)) for name in SPLITS}
    differing = ["don't \n\n x", "12345", "e\u0301"]
    assert len({tuple(codec.encode(" ".join(differing))) for codec in codecs.values()}) == len(SPLITS)


def test_first_and_last_tokens_are_added_where_the_file_says_so(tmp_path):
    plain = load_text(write(tmp_path / "plain.gguf")).encode("hi")
    both = load_text(write(tmp_path / "both.gguf", add_bos_token=True, add_eos_token=True))
    assert both.encode("hi") == [0, *plain, 2]
    assert both.encode("hi", add_special_tokens=False) == plain
    first = load_text(write(tmp_path / "first.gguf", add_bos_token=True, add_eos_token=False))
    assert first.encode("hi") == [0, *plain]


def test_template_and_end_tokens_are_read(tmp_path):
    template = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"
    codec = load_text(write(tmp_path / "model.gguf", chat_template=template, eot_token_id=1))
    assert codec.apply_chat([{"role": "user", "content": "hi"}]) == "<|endoftext|>hi<|im_end|>"
    assert codec.eos_ids == {1, 2}
    assert not load_text(write(tmp_path / "bare.gguf")).has_chat_template


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model": "llama"}, "tokenizer.ggml.model = 'llama'"),
        ({"pre": "tekken"}, "tokenizer.ggml.pre = 'tekken'"),
        ({"pre": None}, "tokenizer.ggml.pre = 'default'"),
    ],
)
def test_unknown_tokenizers_are_refused_by_name(changes, named, tmp_path):
    with pytest.raises(UnsupportedModel) as caught:
        load_text(write(tmp_path / "model.gguf", **changes))
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model": None}, "tokenizer.ggml.model is missing"),
        ({"tokens": None}, "tokenizer.ggml.tokens is missing"),
        ({"tokens": ["a", "a"]}, "tokenizer.ggml.tokens names a token twice"),
        ({"tokens": [1, 2]}, "tokenizer.ggml.tokens must be a list of strings"),
        ({"token_type": [1, 1]}, "tokenizer.ggml.token_type must hold 501 kinds"),
        ({"bos_token_id": None, "add_bos_token": True}, "tokenizer.ggml.bos_token_id is missing"),
        ({"bos_token_id": 10**6, "add_bos_token": True}, "tokenizer.ggml.bos_token_id = 1000000, of"),
    ],
)
def test_broken_metadata_is_named(changes, named, tmp_path):
    with pytest.raises(ModelFileError) as caught:
        load_text(write(tmp_path / "model.gguf", **changes))
    assert named in str(caught.value)
