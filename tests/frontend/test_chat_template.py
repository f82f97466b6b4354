import time
from collections.abc import Callable

import pytest

from lamina.errors import FormatError, InputError
from lamina.frontend.chat_template import ChatTemplate

HI = [{"role": "user", "content": "Hi"}]
CHATML = (
    "{% for m in messages %}<|{{ m.role }}|>\n{{ m['content'] | trim }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def render(source: str, messages: list = HI, **rest: bool) -> str:
    return ChatTemplate(source, "<s>", "</s>").render(messages, **rest)


def test_messages_are_written_in_order() -> None:
    messages = [*HI, {"role": "assistant", "content": " Hello "}]
    assert (
        render(CHATML, messages)
        == "<|user|>\nHi<|end|>\n<|assistant|>\nHello<|end|>\n<|assistant|>\n"
    )


def test_the_generation_prompt_may_be_left_out() -> None:
    assert render(CHATML, add_generation_prompt=False) == "<|user|>\nHi<|end|>\n"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ bos_token }}x{{ eos_token }}", "<s>x</s>"),
        ("{{ tools is none }}{{ documents is defined }}", "TrueFalse"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        (
            "{% for i in range(3) %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}",
            "02",
        ),
        (
            "{% for i in 'ab' %}{{ loop.index }}{{ loop.last }}/{{ loop.length }} {% endfor %}",
            "1False/2 2True/2 ",
        ),
        (
            "{% set n = namespace(x=1) %}{% for i in 'ab' %}{% set n.x = n.x * 3 %}{% endfor %}{{ n.x }}",
            "9",
        ),
        ("{% generation %}said{% endgeneration %}", "said"),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        ("{{ {'a': '<é>', 'b': [1, none]} | tojson }}", '{"a": "<é>", "b": [1, null]}'),
        ("{{ {'a': 1} | tojson(indent=2) }}", '{\n  "a": 1\n}'),
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "Hi"}'),
        ("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f('a') ~ f(1) ~ none }}", "<a><1>None"),
        ("{{ messages | map(attribute='role') | join(',') }}", "user"),
        ("{{ messages | selectattr('role', 'equalto', 'user') | list | length }}", "1"),
        ("{{ 'a b'.split(' ')[1].replace('b', 'cc') | upper }}", "CC"),
        ("{{ missing }}|{{ missing | default('x') }}", "|x"),
        (
            "{% set t %}a{{ 1 }}{% endset %}{{ t }}{{ 2 ** 10 }}{{ '-' * 3 }}{{ 7 % 4 }}",
            "a11024---3",
        ),
        ("{{ strftime_now('%Y') | length }}", "4"),
    ],
)
def test_a_template_can_do_what_templates_do(source: str, text: str) -> None:
    assert render(source) == text


def test_a_template_may_refuse_the_messages() -> None:
    with pytest.raises(InputError, match="refuses the messages: roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


def test_a_template_that_cannot_cope_with_the_messages_says_so() -> None:
    with pytest.raises(InputError, match="fails on these messages: UndefinedError"):
        render("{{ messages[0].name.first }}")


def test_bad_syntax_is_refused_with_its_line() -> None:
    with pytest.raises(FormatError, match="cannot be compiled: line 2: "):
        render("a\n{% if %}")


@pytest.mark.parametrize(
    "expression",
    [
        "''.__class__.__mro__[1].__subclasses__()",
        "messages.__class__",
        "''['__class__']",
        "'' | attr('__class__') | list",
        "messages.append(1)",
        "raise_exception.__globals__",
        "range.__init__.__globals__",
        "self._TemplateReference__context",
        "'{0.__class__}'.format(1)",
        "'%s' % 1",
        "namespace.__init__.__globals__",
        "messages | map(attribute='__class__') | list",
    ],
)
def test_a_template_cannot_reach_for_internals(expression: str) -> None:
    try:
        text = render(f"{{{{ {expression} }}}}")
    except (FormatError, InputError) as error:
        text = str(error)
    assert "<class" not in text
    assert "built-in" not in text


@pytest.mark.parametrize("name", ["lipsum(n=100000)", "cycler(1)", "joiner()"])
def test_needless_globals_are_gone(name: str) -> None:
    with pytest.raises(InputError, match="is undefined"):
        render(f"{{{{ {name} }}}}")


DOUBLING = "{% set n = namespace(s='ab') %}{% for i in range(60) %}{% set n.s = SUM %}{% endfor %}{{ n.s }}"
DEEP = "{% set n = namespace(t=(1, 1)) %}{% for i in range(60) %}{% set n.t = (n.t, n.t) %}{% endfor %}"

ENDLESS = [
    DEEP + "{{ {n.t: 1} | length }}",
    DEEP + "{{ {'a': 1}[n.t] }}",
    DEEP + "{{ n.t in [n.t] }}",
    "{% for i in range(10**9) %}x{% endfor %}",
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% set s = 'a' * 99999 %}{% for i in s %}{% for j in s %}{% endfor %}{% endfor %}",
    "{% for i in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% block a %}{{ self.a() }}{% endblock %}",
    "{{ 'a' * 10**9 }}",
    "{{ 10**9 * 'a' }}",
    "{{ [0] * 10**9 }}",
    "{{ 9**(9**9) }}",
    "{{ 10**1000 * 10**1000 }}",
    DOUBLING.replace("SUM", "n.s + n.s"),
    DOUBLING.replace("SUM", "n.s ~ n.s"),
    DOUBLING.replace("SUM", "[n.s, n.s]"),
    DOUBLING.replace("SUM", "n.s * 2"),
    DOUBLING.replace("SUM", "(n.s, n.s) | join"),
    DOUBLING.replace("SUM", "n.s.replace('a', n.s)"),
    DOUBLING.replace("SUM", "n.s | replace('b', n.s)"),
    DOUBLING.replace("SUM", "n.s.join(n.s)"),
    DOUBLING.replace("{% set n.s = SUM %}", "{% set n.s %}{{ n.s }}{{ n.s }}{% endset %}"),
    DOUBLING.replace("SUM", "[n.s] * 9").replace("{{ n.s }}", "{{ n.s == [n.s] }}"),
    DOUBLING.replace("SUM", "[n.s] * 9").replace("{{ n.s }}", "{{ [] == n.s }}"),
    DOUBLING.replace("SUM", "[n.s] * 9").replace("{{ n.s }}", "{{ n.s | tojson }}"),
    "{% set s = 'a' * 9999999 %}{% set t %}{{ s }}{{ s }}{% endset %}",
    DOUBLING.replace("SUM", "{'k': n.s, 'v': n.s}").replace("{{ n.s }}", "{{ n.s.items() }}"),
    "{% for i in range(99999) %}{{ 'a' * 9999 }}{% endfor %}",
    "{{ ('a\n' * 99999) | indent(99999) }}",
    "{{ 'a' | indent(10**10) }}",
    "{{ [1] | tojson(indent=10**10) }}",
    "{{ 1.5 | round(10**10, 'ceil') }}",
    "{{ 'a'.ljust(10**10) }}",
    "{{ 'a'['center'](10**10) }}",
    "{{ '\t'.expandtabs(10**10) }}",
    "{{ (5).to_bytes(10**10) }}",
    "{{ '{:>9999999999}'.format(1) }}",
    "{{ '%9999999999d' % 1 }}",
    "{{ '%9999999999d' | format(1) }}",
    "{{ range(99999) | map('string') | join('a' * 9999) }}",
    "{{ strftime_now('%9999999999d') }}",
    "{% if " + "(" * 5000 + "1" + ")" * 5000 + " %}{% endif %}",
    "{{ " + "[" * 400 + "]" * 400 + " }}",
    "x" * (1 << 17) + "y",
    "{% for i in [1] %}" * 30 + "{% endfor %}" * 30,
]


@pytest.mark.parametrize("source", ENDLESS)
def test_a_template_that_would_not_end_fails_fast(source: str) -> None:
    start = time.monotonic()
    with pytest.raises(FormatError, match="the chat template"):
        render(source)
    assert time.monotonic() - start < 3


GATHERING = "{% set n = namespace(x=[]) %}{% for i in range(9999) %}{% set n.x = n.x + [MORE] %}{% endfor %}"

GREEDY = [
    GATHERING.replace("MORE", "'é' * (9999999 + i)"),
    GATHERING.replace("MORE", "'👍' * (9999999 + i)"),
    GATHERING.replace("MORE", "('ab' * 4000000).replace('a', '你')"),
    GATHERING.replace("MORE", "('ŉ' * 4000000).upper()"),
    GATHERING.replace("MORE", "[" + "1, " * 2000 + "]"),
    GATHERING.replace("MORE", "{" + "".join(f"'{n}': 1, " for n in range(99)) + "}"),
    "{% set s = '👍' * 9999999 %}" + GATHERING.replace("MORE", "s[i + 1:]"),
    GATHERING.replace("{% set n.x", "{% set b %}{{ 'é' * 9999999 }}{% endset %}{% set n.x").replace(
        "MORE", "b"
    ),
    "{% macro f(n) %}{% set x = 'é' * (9999999 + n) %}{{ f(n - 1) }}{{ x }}{% endmacro %}{{ f(150) }}",
    "{{ ('你' * 9999999) | list }}",
    "{{ ('你好' * 5000000) | sort }}",
    "{{ ('你a' * 5000000).split('a') }}",
    "{{ ('你 ' * 5000000).split() }}",
    "{{ ','.join('你' * 9999999) }}",
    "{{ dict(*('你' * 9999999)) }}",
    "{{ 1 | default(*('你' * 9999999)) }}",
    "{{ ('<' * 9999999) | e }}",
    "{{ ('<' | e) + '<' * 9999999 }}",
]


@pytest.mark.parametrize("source", GREEDY)
def test_a_template_that_takes_too_much_fails_before_it_has_it(
    source: str, traced: Callable[..., int]
) -> None:
    def refused() -> None:
        with pytest.raises(FormatError, match="it makes"):
            render(source)

    assert traced(refused) < 300_000_000


def test_a_long_conversation_is_not_too_much() -> None:
    source = "{% for m in messages[1:] %}{{ '<' ~ m.role + '>' + (m.content | trim) + m['content'] }}{% endfor %}"
    messages = [{"role": "user", "content": "word " * 200}] * 1000
    assert len(render(source, messages)) == 999 * (6 + 999 + 1000)


def test_a_template_can_be_rendered_again_after_it_ran_out_of_steps() -> None:
    loops = "{% for i in range(9999) %}{% for j in range(999) %}{% endfor %}{% endfor %}"
    template = ChatTemplate("{% if messages | length > 1 %}" + loops + "{% endif %}x")
    with pytest.raises(FormatError, match="more than 500000 steps"):
        template.render(HI * 2)
    assert template.render(HI) == "x"


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ("Hi", "messages are a str"),
        (None, "messages are a NoneType"),
        (["Hi"], "message 0 is a str"),
        ([{"content": "Hi"}], "message 0 has the role None"),
        ([{"role": "user<|end|>", "content": "Hi"}], "message 0 has the role 'user<"),
        ([*HI, {"role": "user"}], "message 1 has no content"),
        ([{"role": "user", "content": 5}], "message 0 has a content that is neither"),
        ([{"role": "user", "content": [b"x"]}], "message 0 holds a bytes"),
        ([{"role": "user", "content": "", 5: ""}], "message 0 has a key that is not a string"),
    ],
)
def test_malformed_messages_are_refused_by_number(messages: list, reason: str) -> None:
    with pytest.raises(InputError, match=f"^{reason}"):
        render(CHATML, messages)


def test_messages_that_hold_themselves_are_refused() -> None:
    parts: list[object] = []
    parts.append(parts)
    with pytest.raises(InputError, match="message 0 is nested more than 32 deep"):
        render(CHATML, [{"role": "user", "content": parts}])


def test_a_rendering_leaves_the_callers_messages_alone() -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    assert render("{{ messages[0].content[0].text }}", messages) == "Hi"
    assert messages == [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
