"""How kernels reach the words of their arguments, of which a large one lies in several windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Access:
    """What is done with a word of memory: a statement on `{word}`.

    `parameters` are those that follow the word's number, `result` is the type of what is returned,
    empty for nothing; `atomic` says that the words have to be atomic ones.
    """

    statement: str
    parameters: str = ""
    result: str = ""
    atomic: bool = False


def _changed(function: str) -> Access:
    """Return the access that is one function of the language, on words of any sign."""
    return Access(f"return {function}(&{{word}}, x);", "x: u32", "u32", atomic=True)


def _updated(new: str) -> Access:
    """Return the access that makes `new` of `old` and `x`, tried until nobody was in between."""
    again = f"let r = atomicCompareExchangeWeak(&{{word}}, old, {new});"
    statement = (
        f"var old = atomicLoad(&{{word}}); var done = false; while (!done) "
        f"{{{{ {again} old = r.old_value; done = r.exchanged; }}}} return old;"
    )
    return Access(statement, "x: u32", "u32", atomic=True)


_COMPARE: Final = (
    "var old = expected; var done = false; while (!done) "
    "{{ let r = atomicCompareExchangeWeak(&{word}, expected, x); old = r.old_value; "
    "done = r.exchanged || old != expected; }} return old;"
)

ACCESSES: Final[dict[str, Access]] = {
    "load": Access("return {word};", result="u32"),
    "load_atomic": Access("return atomicLoad(&{word});", result="u32", atomic=True),
    "store": Access("{word} = x;", "x: u32"),
    "store_atomic": Access("atomicStore(&{word}, x);", "x: u32", atomic=True),
    "clear": Access("atomicAnd(&{word}, ~bits);", "bits: u32", atomic=True),
    "set": Access("atomicOr(&{word}, bits);", "bits: u32", atomic=True),
    "add": _changed("atomicAdd"),
    "and": _changed("atomicAnd"),
    "or": _changed("atomicOr"),
    "xor": _changed("atomicXor"),
    "exchange": _changed("atomicExchange"),
    "max": _updated("select(old, x, bitcast<i32>(x) > bitcast<i32>(old))"),
    "min": _updated("select(old, x, bitcast<i32>(x) < bitcast<i32>(old))"),
    "add_f32": _updated("bitcast<u32>(bitcast<f32>(old) + bitcast<f32>(x))"),
    "compare_exchange": Access(_COMPARE, "expected: u32, x: u32", "u32", atomic=True),
}
"""By the first part of the function's name; the second is the memory's."""


def access_text(kind: str, memory: str, windows: int, words: int) -> str:
    """Return the function `<kind>_<memory>` for a memory in `windows` of `words` words each."""
    access = ACCESSES[kind]
    parameters = ", ".join(filter(None, ("i: u32", access.parameters)))
    result = f" -> {access.result}" if access.result else ""
    head = f"fn {kind}_{memory}({parameters}){result} {{"
    if windows == 1:
        return f"{head} {access.statement.format(word=f'{memory}[i]')} }}"
    lines: list[str] = []
    for n, name in enumerate(window_names(memory, windows)):
        test = f"if (i < {(n + 1) * words}u) " if n < windows - 1 else ""
        at = f"i - {n * words}u" if n else "i"
        lines.append(f"{test}{{ {access.statement.format(word=f'{name}[{at}]')} }}")
    return "\n".join([head, "  " + "\n  else ".join(lines), "}"])


def window_names(memory: str, windows: int) -> tuple[str, ...]:
    """Return the variables that the windows of a memory are bound to."""
    return (memory, *(f"{memory}_{n}" for n in range(1, windows)))
