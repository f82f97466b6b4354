from pathlib import Path

import lamina
from lamina import compiler
from lamina.frontend.tokenizer import Tokenizer

TEXT = "Hello, naïve 世界"
CHAT = [{"role": "user", "content": "Hi"}]


def test_a_tokenizer_is_the_same_after_bytes_and_back(bytewise_llama: Path) -> None:
    tokenizer = lamina.read(bytewise_llama).tokenizer
    assert tokenizer
    again = Tokenizer.from_bytes(tokenizer.to_bytes())
    assert again.encode(TEXT) == tokenizer.encode(TEXT)
    assert again.decode(again.encode(TEXT)) == tokenizer.decode(tokenizer.encode(TEXT))
    assert again.encode_chat(CHAT) == tokenizer.encode_chat(CHAT)
    assert (again.eos_ids, again.vocab_size) == (tokenizer.eos_ids, tokenizer.vocab_size)


def test_a_compiled_model_writes_the_same_text(bytewise_llama: Path, tmp_path: Path) -> None:
    model = lamina.read(bytewise_llama)
    compiler.compile_to_file(model, tmp_path / "x.lamina")
    expected = lamina.LLM(model).generate(["Hello", "One"], max_new_tokens=6)
    done = lamina.LLM(tmp_path / "x.lamina").generate(["Hello", "One"], max_new_tokens=6)
    assert [each.text for each in done] == [each.text for each in expected]
