"""Attention on a CUDA device, beside torch: of a prompt to itself, and of a step to a long past."""

from itertools import product
from typing import Any

import attention
import numpy as np
from gpu_device import Array, ResidentStep
from gpu_rates import compiled, torch_module, torch_seconds
from gpu_setting import Record, Records, Setting, difference

from lamina.frontend.model import Weights
from lamina.runtime.batch import Batch, Part
from lamina.runtime.pools import allocate_pools

PROMPT, PAST = 2048, 32768
DRY_PROMPT, DRY_PAST = 2 * attention.PAGE, 20 * attention.PAGE
KEYS, VALUES = "keys", "values"


def attend(setting: Setting) -> Records:
    """Attend to pages as decoders do."""
    torch = torch_module()
    shapes = attention.SHAPES[: setting.size(4, 1)]
    for heads, measured in setting.each(product(shapes, (_prompt, _step))):
        yield measured(setting, heads, torch)


def _prompt(setting: Setting, heads: attention.Heads, torch: Any) -> Record:
    length = setting.size(PROMPT, DRY_PROMPT)
    inputs, step = _begun(setting, heads, Part(range(length), 0, _pages(length)))
    seconds = setting.clock.seconds(step.give)
    off = difference(step.outputs()["y"][-1], _seen(inputs["q"][-1], inputs["k"], inputs["v"]))
    work = 2 * 2 * heads.count * heads.size * length * (length + 1) / 2
    theirs = _torch_attention(torch, heads, length, length) if torch else None
    return {
        "name": f"{heads.name}, {length} tokens",
        "ok": off <= 1e-4,
        "worst": off,
        "tera_per_s": work / seconds / 1e12,
        "of_torch": theirs and theirs / seconds,
    }


def _step(setting: Setting, heads: attention.Heads, torch: Any) -> Record:
    length = setting.size(PAST, DRY_PAST)
    inputs, step = _begun(setting, heads, Part([0], length - 1, _pages(length)))
    seconds = setting.clock.seconds(step.give)
    k, v = (_rows(inputs[name], length) for name in (KEYS, VALUES))
    k[-1], v[-1] = inputs["k"][0], inputs["v"][0]
    off = difference(step.outputs()["y"][0], _seen(inputs["q"][0], k, v))
    rate = (k.nbytes + v.nbytes) / seconds
    theirs = _torch_attention(torch, heads, 1, length) if torch else None
    return {
        "name": f"{heads.name}, a step after {length - 1}",
        "ok": off <= 1e-4,
        "worst": off,
        "gb_per_s": rate / 1e9,
        "of_read": setting.share(rate, "read"),
        "of_torch": theirs and theirs / seconds,
    }


def _pages(length: int) -> Array:
    return np.arange(length // attention.PAGE, dtype=np.int32)


def _begun(
    setting: Setting, heads: attention.Heads, part: Part
) -> tuple[dict[str, Array], ResidentStep]:
    """Return inputs and pools of one sequence, and its step on the device."""
    executable = compiled(setting, attention.paged(heads), Weights(()), "sm_80")
    batch = Batch(executable.signature.attributes["block"]).fill([part])
    rng, tokens = np.random.default_rng(1), len(part.tokens)
    shape = (tokens, heads.shared, heads.size)
    found: dict[str, Array] = {name: rng.standard_normal(shape, np.float32) for name in "kv"}
    grouped = (tokens, heads.shared, heads.count // heads.shared, heads.size)
    found["q"] = rng.standard_normal(grouped, np.float32)
    pools = allocate_pools(executable.signature.states, len(part.pages))
    for pool in pools.values():
        pool[...] = rng.standard_normal(pool.shape, np.float32)
    roles = ("positions", "query_start", "table", "work")
    found |= {role: batch[role] for role in roles} | pools
    return found, ResidentStep(executable, found)


def _rows(pool: Array, length: int) -> Array:
    """Return the keys or values of pages in order: [length, heads, D], however keys lie."""
    order = (0, 2, 4, 1, 3) if pool.ndim == 5 else (0, 2, 1, 3)
    return pool.transpose(order).reshape(length, pool.shape[1], -1).copy()


def _seen(q: Array, k: Array, v: Array) -> Array:
    """Return what a token sees that looks at all keys: [shared, count / shared, size]."""
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    scores = np.einsum("hgd,thd->hgt", q, k) / np.sqrt(q.shape[-1])
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hgt,thd->hgd", p / p.sum(-1, keepdims=True), v)


def _torch_attention(torch: Any, heads: attention.Heads, tokens: int, length: int) -> float:
    q = torch.randn((1, heads.count, tokens, heads.size), device="cuda")
    shape = (1, heads.shared, length, heads.size)
    k, v = (torch.randn(shape, device="cuda") for _ in range(2))
    attend_to = torch.nn.functional.scaled_dot_product_attention
    causal = tokens > 1
    return torch_seconds(torch, lambda: attend_to(q, k, v, is_causal=causal, enable_gqa=True))
