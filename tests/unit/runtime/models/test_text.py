"""Text of Hugging Face folders: against transformers, and token by token."""

import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from runtime.models import ChatTemplateError, MissingPackage, ModelFileError, load_text
from runtime.models.text.codec import TextCodec
from tests.unit.runtime.models.tokenizers_of_tests import (
    HOSTILE,
    byte_level,
    saved_tokenizer,
    sentencepiece_like,
)

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHAT = [{"role": "system", "content": 'Be "brief" & <kind>.'}, {"role": "user", "content": "héllo\n"}]
TOOLS = [{"type": "function", "function": {"name": "größe", "parameters": {"type": "object", "x": None}}}]
BYTE_LEVEL = TextCodec(byte_level(), eos_ids=frozenset())
CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd")
SENTENCEPIECE = TextCodec(sentencepiece_like(), eos_ids=frozenset())


def streamed(codec, ids, **settings):
    stream = codec.stream(**settings)
    return [*(stream.push(each) for each in ids), stream.finish()]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_tokens_are_those_of_transformers(text, tmp_path):
    tokenizer = byte_level()
    ends = [("<|endoftext|>", 0)]
    tokenizer.post_processor = TemplateProcessing(single="<|endoftext|> $A", special_tokens=ends)
    theirs = saved_tokenizer(tmp_path, tokenizer)
    codec = load_text(tmp_path)
    ids = codec.encode(text)
    assert ids == theirs(text)["input_ids"]
    assert codec.encode(text, add_special_tokens=False) == ids[1:]
    assert codec.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert codec.decode(ids, skip_special_tokens=False) == theirs.decode(ids)
    assert codec.vocab_size == len(theirs)


@given(ids=st.lists(st.integers(0, BYTE_LEVEL.vocab_size - 1), max_size=30), skip=st.booleans())
def test_a_stream_of_any_bytes_gives_what_decoding_them_at_once_gives(ids, skip):
    pieces = streamed(BYTE_LEVEL, ids, skip_special_tokens=skip)
    assert "".join(pieces) == BYTE_LEVEL.decode(ids, skip_special_tokens=skip)


@pytest.mark.parametrize("codec", [BYTE_LEVEL, SENTENCEPIECE], ids=["bytes", "pieces"])
@given(
    text=st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\ufffd"), max_size=20)
)
def test_a_stream_of_a_text_never_shows_half_a_character(codec, text):
    ids = codec.encode(text)
    pieces = streamed(codec, ids)
    assert "".join(pieces) == codec.decode(ids)
    assert all("\ufffd" not in piece for piece in pieces)


@pytest.mark.parametrize("codec", [BYTE_LEVEL, SENTENCEPIECE], ids=["bytes", "pieces"])
def test_a_character_cut_off_at_the_end_shows_when_the_stream_is_finished(codec):
    ids = codec.encode("a 🦜")[:-1]
    pieces = streamed(codec, ids)
    assert "".join(pieces[:-1]).strip() == "a"
    assert set(pieces[-1]) == {"\ufffd"}


def test_special_tokens_are_hidden_or_shown():
    ids = BYTE_LEVEL.encode("hi<|im_end|> two words")
    assert BYTE_LEVEL.decode(ids) == "hi two words"
    assert "".join(streamed(BYTE_LEVEL, ids)) == "hi two words"
    assert "".join(streamed(BYTE_LEVEL, ids, skip_special_tokens=False)) == "hi<|im_end|> two words"


def test_ids_beyond_the_vocabulary_are_no_text():
    assert streamed(BYTE_LEVEL, [10**6]) == ["", ""]


TEMPLATES = {
    "chatml": CHATML,
    "trimmed blocks": "{% if true %}\n  {% for m in messages %}\n{{ m.role }}\n {% endfor %}\n{% endif %}\n.",
    "special tokens": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}",
    "json": "{{ messages | tojson }}{{ messages | tojson(indent=2, sort_keys=true) }}",
    "json of tools": "{% if tools %}{{ tools | tojson }}{% else %}none{% endif %}",
    "loop controls": "{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}x{% endfor %}",
    "generation": "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}|{% endfor %}",
    "namespace": "{% set n = namespace(x=0) %}{% for m in messages %}{% set n.x = 3 %}{% endfor %}{{ n.x }}",
    "dictionaries": "{{ dict(a=1).items() | list }}{{ messages[0].get('name', 'nobody') }}",
    "documents": "{{ 'yes' if documents else 'no' }}{{ 'defined' if documents is defined else 'undefined' }}",
    "the year": "{{ strftime_now('%Y') }}",
    "undefined is empty": "[{{ nothing }}{{ messages[0].name }}]",
}


@pytest.mark.parametrize("tools", [None, TOOLS], ids=["plain", "tools"])
@pytest.mark.parametrize("name", TEMPLATES)
def test_chats_are_written_as_transformers_writes_them(name, tools, tmp_path):
    theirs = saved_tokenizer(tmp_path, byte_level(), chat_template=TEMPLATES[name])
    codec = load_text(tmp_path)
    assert codec.has_chat_template
    for prompt in (True, False):
        text = theirs.apply_chat_template(CHAT, tokenize=False, add_generation_prompt=prompt, tools=tools)
        assert codec.apply_chat(CHAT, add_generation_prompt=prompt, tools=tools) == text
    ids = theirs.apply_chat_template(CHAT, tools=tools, add_generation_prompt=True, return_dict=False)
    assert codec.encode_chat(CHAT, tools=tools) == ids


def test_a_template_that_refuses_says_why(tmp_path):
    saved_tokenizer(tmp_path, byte_level(), chat_template="{{ raise_exception('roles must alternate') }}")
    with pytest.raises(ChatTemplateError, match="roles must alternate"):
        load_text(tmp_path).apply_chat(CHAT)


@pytest.mark.parametrize(
    "attack",
    [
        "{{ messages.__class__.__mro__ }}{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{{ messages[0].content.missing.deeper }}",
        "{{ 1 // 0 }}",
        "{{ messages[0] + 1 }}",
        "{{ [1] | dictsort }}",
        "{{ range(99999999999) | list }}",
    ],
)
def test_a_template_gets_nowhere_and_fails_as_one_kind_of_error(attack, tmp_path):
    saved_tokenizer(tmp_path, byte_level(), chat_template=attack)
    codec = load_text(tmp_path)
    with pytest.raises(ChatTemplateError, match="the chat template refuses"):
        codec.apply_chat(CHAT)


def test_rendering_changes_nothing(tmp_path):
    saved_tokenizer(tmp_path, byte_level(), chat_template=CHATML)
    chat = json.loads(json.dumps(CHAT))
    load_text(tmp_path).apply_chat(chat)
    assert chat == CHAT


def test_a_template_that_is_none_does_not_compile(tmp_path):
    saved_tokenizer(tmp_path, byte_level(), chat_template="{% if %}")
    with pytest.raises(ChatTemplateError, match="does not compile"):
        load_text(tmp_path)


def test_templates_stand_in_the_configuration_of_older_folders(tmp_path):
    saved_tokenizer(tmp_path, byte_level())
    path = tmp_path / "tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"chat_template": "old"}))
    assert load_text(tmp_path).apply_chat(CHAT, tools=TOOLS) == "old"
    named = [{"name": "default", "template": "plain"}, {"name": "tool_use", "template": "tools"}]
    path.write_text(json.dumps(config | {"chat_template": named}))
    codec = load_text(tmp_path)
    assert (codec.apply_chat(CHAT), codec.apply_chat(CHAT, tools=TOOLS)) == ("plain", "tools")
    (tmp_path / "chat_template.jinja").write_text("file")
    assert load_text(tmp_path).apply_chat(CHAT) == "file"
    (tmp_path / "chat_template.jinja").unlink()
    path.write_text(json.dumps(config | {"chat_template": 3}))
    with pytest.raises(ModelFileError, match="chat_template must be a text or named texts, not 3"):
        load_text(tmp_path)


def test_without_a_template_a_chat_is_refused(tmp_path):
    saved_tokenizer(tmp_path, byte_level())
    codec = load_text(tmp_path)
    assert not codec.has_chat_template
    with pytest.raises(ChatTemplateError, match="hold no chat template"):
        codec.apply_chat(CHAT)


def test_end_tokens_come_from_every_file_that_names_some(tmp_path):
    theirs = saved_tokenizer(tmp_path, byte_level())
    assert load_text(tmp_path).eos_ids == {theirs.convert_tokens_to_ids("<|im_end|>")}
    (tmp_path / "config.json").write_text('{"eos_token_id": 0}')
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [0, 7]}')
    assert load_text(tmp_path).eos_ids == {0, 2, 7}


def test_padding_and_truncation_of_training_are_switched_off(tmp_path):
    tokenizer = byte_level()
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=6)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert len(load_text(tmp_path).encode("one two three four five six")) > 6
    assert len(load_text(tmp_path).encode("a")) == 1


def test_missing_and_damaged_files_are_named(tmp_path, monkeypatch):
    with pytest.raises(ModelFileError, match=r"tokenizer\.json: there is no such file"):
        load_text(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"version": "1.0"}')
    with pytest.raises(ModelFileError, match=r"tokenizer\.json: is no tokenizer"):
        load_text(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingPackage, match="pip install tokenizers"):
        load_text(tmp_path)
