"""Logits against transformers, which wrote the checkpoints, in float32."""

import pytest
import torch

from runtime.models import load_model
from runtime.models.loading.huggingface_config import config_from_huggingface
from tests.unit.runtime.models.checkpoints import edit_config, saved, transformer
from tests.unit.runtime.models.dense import DenseEngine

TOLERANCE = 1e-4
PROMPT = torch.randint(97, (40,), generator=torch.Generator().manual_seed(3)).tolist()

LLAMA3 = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
MODELS = {
    "llama": ("llama", {}),
    "llama, tied": ("llama", {"tie_word_embeddings": True}),
    "llama, biases": ("llama", {"attention_bias": True}),
    "llama, no groups": ("llama", {"num_key_value_heads": 6}),
    "llama, one kv head": ("llama", {"num_key_value_heads": 1}),
    "llama, head_dim": ("llama", {"head_dim": 12}),
    "mistral": ("mistral", {"sliding_window": None}),
    "qwen2": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2, untied": ("qwen2", {}),
    "qwen3": ("qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
    "qwen3, untied": ("qwen3", {"head_dim": 16}),
    "qwen3, biases": ("qwen3", {"head_dim": 16, "attention_bias": True}),
}
SCALINGS = {
    "default": {"rope_type": "default", "rope_theta": 500.0},
    "linear": {"rope_type": "linear", "factor": 3.0, "rope_theta": 500.0},
    "dynamic": {"rope_type": "dynamic", "factor": 3.0, "rope_theta": 500.0},
    "llama3": LLAMA3 | {"rope_theta": 500.0, "original_max_position_embeddings": 24},
    "yarn": YARN | {"rope_theta": 500.0},
    "yarn, all settings": YARN
    | {"rope_theta": 500.0, "beta_fast": 8.0, "beta_slow": 0.5, "truncate": False, "attention_factor": 1.3},
    "yarn, mscale": YARN | {"rope_theta": 500.0, "mscale": 0.7, "mscale_all_dim": 0.3},
}


def expected(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].float()


def assert_close(ours, theirs):
    assert ours.shape == theirs.shape
    assert ours.dtype == torch.float32
    assert ((ours - theirs).abs().max() / theirs.abs().max()).item() < TOLERANCE


def compare(model, folder, prompt):
    """Cold prefill; then the same prompt in chunks, with a cached prefix each time, ended by decode steps."""
    theirs = expected(model, prompt)
    decoder = load_model(folder)
    cold = DenseEngine(decoder, room=len(prompt))
    cold.rows[0].tokens = list(prompt)
    assert_close(cold.step(every_row=True), theirs)
    warm = DenseEngine(decoder, room=len(prompt), seed=1)
    chunks = []
    for end in (11, 12, len(prompt) - 3, len(prompt) - 2, len(prompt) - 1, len(prompt)):
        warm.rows[0].tokens = prompt[:end]
        chunks.append(warm.step(every_row=True))
    assert_close(torch.cat(chunks), theirs)


@pytest.mark.parametrize("name", MODELS)
def test_prefill_and_decode_give_the_logits_of_transformers(name, tmp_path):
    model_type, settings = MODELS[name]
    model = transformer(model_type, **settings)
    compare(model, saved(model, tmp_path), PROMPT)


@pytest.mark.parametrize("name", SCALINGS)
def test_every_rope_scaling_gives_the_logits_of_transformers(name, tmp_path):
    model = transformer("llama", rope_parameters=SCALINGS[name])
    compare(model, saved(model, tmp_path), PROMPT)


@pytest.mark.parametrize("name", SCALINGS)
def test_the_older_spelling_of_rope_scaling_means_the_same(name, tmp_path):
    model = transformer("llama", rope_parameters=SCALINGS[name])
    folder = saved(model, tmp_path)
    config = load_model(folder).config
    older = {"type" if key == "rope_type" else key: value for key, value in SCALINGS[name].items()}
    base = older.pop("rope_theta")
    edit_config(folder, rope_parameters=None, rope_scaling=older, rope_theta=base)
    assert load_model(folder).config == config
    assert config.rope_base == base


def test_dynamic_ntk_beyond_the_trained_length_is_that_of_a_sequence_of_max_context(tmp_path):
    model = transformer("llama", rope_parameters=SCALINGS["dynamic"])
    folder = saved(model, tmp_path)
    long = (PROMPT * 3)[:100]
    theirs = expected(model, long)
    trained = load_model(folder)
    stretched = type(trained)(trained.config.stretched(100), trained.weights)
    engine = DenseEngine(stretched, room=100)
    engine.rows[0].tokens = long
    assert_close(engine.step(every_row=True), theirs)
    engine = DenseEngine(trained, room=100)
    engine.rows[0].tokens = long
    assert (engine.step(every_row=True) - theirs).abs().max() > 0.01 * theirs.abs().max()


def test_rows_of_a_mixed_batch_do_not_see_each_other(tmp_path):
    model = transformer("qwen3", head_dim=16)
    decoder = load_model(saved(model, tmp_path))
    engine = DenseEngine(decoder, room=40, sequences=3)
    prompts = [PROMPT[:30], PROMPT[5:6], PROMPT[9:40]]
    for row, prompt in zip(engine.rows, prompts, strict=True):
        row.tokens = prompt[: len(prompt) // 2 + 1]
    engine.step()
    for row, prompt in zip(engine.rows, prompts, strict=True):
        row.tokens = [*prompt, 1]
    theirs = torch.stack([expected(model, [*prompt, 1])[-1] for prompt in prompts])
    assert_close(engine.step(), theirs)


def test_greedy_tokens_are_those_of_transformers(tmp_path):
    model = transformer("qwen2")
    decoder = load_model(saved(model, tmp_path))
    ours = DenseEngine(decoder, room=40, sequences=2).greedy([PROMPT[:9], PROMPT[9:30]], 10)
    for prompt, answer in zip([PROMPT[:9], PROMPT[9:30]], ours, strict=True):
        tokens = torch.tensor([prompt])
        theirs = model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=10,
            do_sample=False,
            pad_token_id=0,
            eos_token_id=-1,
        )
        assert answer == theirs[0, len(prompt) :].tolist()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_near_float32(dtype, tmp_path):
    model = transformer("qwen3", head_dim=16)
    decoder = load_model(saved(model, tmp_path), dtype=dtype)
    assert decoder.dtype == dtype
    engine = DenseEngine(decoder, room=40)
    engine.rows[0].tokens = PROMPT
    ours, theirs = engine.step(every_row=True), expected(model, PROMPT)
    assert ours.dtype == torch.float32
    assert (ours - theirs).abs().max() < 0.05 * theirs.abs().max()


def test_logits_may_be_changed_in_place(tmp_path):
    model = transformer("llama")
    engine = DenseEngine(load_model(saved(model, tmp_path)), room=8)
    engine.rows[0].tokens = PROMPT[:8]
    logits = engine.step()
    before = logits.clone()
    assert torch.equal(logits.div_(2), before / 2)


def test_transformers_reads_the_same_configuration(tmp_path):
    model = transformer("llama")
    config = config_from_huggingface(model.config.to_dict())
    assert config == load_model(saved(model, tmp_path)).config
