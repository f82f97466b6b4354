"""Decoders from end to end on a CUDA device: a model of a file, and one as large as many are."""

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
from gpu_setting import Record, Records, Setting

import lamina
from lamina import compiler
from lamina.dialects.block_types import BLOCK_TYPES
from lamina.frontend import llama
from lamina.frontend.model import ModelConfig, Weight, Weights
from lamina.frontend.rope import Rope
from lamina.measure.subjects import Writing
from lamina.plugins import manager
from lamina.runtime.session import Session
from lamina.targets.cuda.compiled_kernels import Code, KernelFacts, load_kernels
from lamina.targets.cuda.device import CudaDevice
from lamina.targets.cuda.executable import CudaExecutable
from lamina.targets.cuda.sections import CUBIN, KERNELS, PTX
from lamina.targets.devices.loading import LoadedPlan, in_order, read_plan
from lamina.targets.memory import element_dtype
from lamina.targets.plans.bases import packed_bases
from lamina.targets.plans.emission import kernels_from_bytes
from lamina.targets.plans.host_calls import host_functions
from lamina.targets.plans.plan_tables import Plan
from lamina.targets.plans.sections import HOSTS

PROMPT = "The history of the city begins"
NEW, ROUNDS = 64, 3
LOGITS = 0.02
"""How far logits may be off those of the CPU."""
LONG = 512
"""Tokens of a prompt that is read, not written."""

BLOCKS = "q4_0"
SEVEN = ModelConfig(
    architecture="llama",
    vocab_size=32000,
    context_length=4096,
    hidden_size=4096,
    intermediate_size=14336,
    layers=32,
    heads=32,
    kv_heads=8,
    head_dim=128,
    norm_eps=1e-5,
    activation="silu",
    rope=Rope(10000.0, 128, "half_split"),
    tied_embeddings=False,
)
"""Seven thousand million weights."""
SMALL = ModelConfig(
    architecture="llama",
    vocab_size=64,
    context_length=256,
    hidden_size=64,
    intermediate_size=96,
    layers=1,
    heads=2,
    kv_heads=1,
    head_dim=32,
    norm_eps=1e-5,
    activation="silu",
    rope=Rope(10000.0, 32, "half_split"),
    tied_embeddings=False,
)
SCALE = 0.01
"""What floats among the weights that are made up are: scales of blocks, and of norms."""


class Unread(Weights):
    """Weights that are whatever a graph asks for, matrices in blocks, and take no memory."""

    def expect(self, name: str, shape: tuple[int, ...]) -> Weight:
        """Return the weight `name`, all 0."""
        if name not in self:
            self._weights[name] = _unread(name, shape)
        return super().expect(name, shape)


def _unread(name: str, shape: tuple[int, ...]) -> Weight:
    if len(shape) != 2:
        return Weight(name, "f32", shape, np.broadcast_to(np.float32(0), shape))
    block = BLOCK_TYPES[BLOCKS]
    stored = (shape[0], shape[1] // block.elements * block.bytes)
    return Weight(name, BLOCKS, shape, np.broadcast_to(np.uint8(0), stored))


def from_file(setting: Setting) -> Records:
    """Have the model of a file write, beside what the CPU writes."""
    if setting.model is None:
        yield {"name": "a model of a file", "given": False}
        return
    new, prompt = setting.size(NEW, 3), [1, 2, 3] if setting.dry else PROMPT
    began = perf_counter()
    with lamina.LLM(setting.model, setting.target(), cache_tokens=1024) as llm:
        ready = perf_counter() - began
        (first,) = llm.generate([prompt], max_new_tokens=new)
        timed = [
            llm.generate([prompt], max_new_tokens=new)[0].timings
            for _ in range(setting.size(ROUNDS, 1))
        ]
        logits = llm.logits(first.token_ids[:8])
    with lamina.LLM(setting.model, "cpu", cache_tokens=1024, activations="f32") as other:
        (expected,) = other.generate([prompt], max_new_tokens=new)
        off = float(np.abs(logits - other.logits(first.token_ids[:8])).max())
    pairs = zip(first.token_ids, expected.token_ids, strict=False)
    yield {
        "name": setting.model.name,
        "ok": off < LOGITS,
        "worst_logit": off,
        "same_tokens": sum(a == b for a, b in pairs),
        "of_tokens": len(expected.token_ids),
        "ready_s": ready,
        "prefill_s": min(each["prefill_s"] for each in timed),
        "decode_tokens_per_s": (first.timings["new_tokens"] - 1)
        / min(each["decode_s"] for each in timed),
        "text": first.text[:80],
    }


def large(setting: Setting) -> Records:
    """Have a model of seven thousand million weights of 4 bits write; they are made in place."""
    config = SMALL if setting.dry else SEVEN
    began = perf_counter()
    executable = invented(setting, config)
    stored = sum(buffer.size for buffer in executable.packed.values())
    yield {"name": "the large model", "ready_s": perf_counter() - began, "weights_gb": stored / 1e9}
    prompts = [[1, 2, 3]] if setting.dry else [[1] * 8, list(range(1, LONG + 1))]
    for prompt in setting.each(prompts):
        yield _written(setting, executable, config, prompt)


def _written(
    setting: Setting, executable: CudaExecutable, config: ModelConfig, prompt: list[int]
) -> Record:
    new = setting.size(NEW, 2)
    session = Session(executable, len(prompt) + new + 64)
    writing = Writing(session, prompt, new)
    writing.run()
    runs = [writing.run() for _ in range(setting.size(ROUNDS, 1))]
    prefill, decode = (min(each) for each in zip(*runs, strict=True))
    # A step of one token reads one row of the table of tokens, and all else.
    table = config.vocab_size * config.hidden_size * BLOCK_TYPES[BLOCKS].bytes
    read = sum(b.size for b in executable.packed.values()) - table / BLOCK_TYPES[BLOCKS].elements
    rate = read * new / decode
    return {
        "name": f"the large model, prompt of {len(prompt)}",
        "prefill_tokens_per_s": len(prompt) / prefill,
        "decode_tokens_per_s": new / decode,
        "gb_per_s": rate / 1e9,
        "of_bandwidth": setting.share(rate, "read"),
    }


def invented(setting: Setting, config: ModelConfig) -> CudaExecutable:
    """Compile a decoder and make its packed weights on the device, from nothing."""
    target, weights = setting.target(kv="f16"), Unread((), "what is made up")
    module = llama.build(config, weights)
    lowered = compiler.lower(module, target)
    artifact = compiler.emit(manager.context(), lowered, target, target.passes())
    sections, device = artifact.sections, setting.device
    plan = read_plan(artifact, {PTX, KERNELS})
    facts = in_order(plan, kernels_from_bytes(sections[KERNELS], KernelFacts))
    code = Code(sections[PTX], target.arch, sections.get(CUBIN, b""))
    with device.lock:
        kernels = load_kernels(device, code, facts)
    hosts = host_functions(plan, sections[HOSTS])
    loaded = LoadedPlan(artifact.signature, plan, (), hosts)
    executable = CudaExecutable(loaded, device, kernels)
    with device.lock:
        for base, (pattern, size) in zip(packed_bases(plan), _patterns(plan), strict=True):
            buffer = executable.packed[base] = device.storage(size)
            _fill(device, buffer.address, buffer.size, pattern)
        device.wait()
    return executable


def _patterns(plan: Plan) -> Iterator[tuple[int, int]]:
    """Yield the word that each packed weight is made of, and its bytes."""
    words = np.random.default_rng(0).integers(0, 1 << 31, len(plan.packed))
    for stored, word in zip(plan.packed, words, strict=True):
        dtype: np.dtype[Any] = element_dtype(stored.dtype)
        size = int(np.prod(stored.shape, dtype=np.int64)) * dtype.itemsize
        if stored.dtype in ("f32", "f16", "bf16"):
            yield int(np.full(4 // dtype.itemsize, SCALE, dtype).view(np.uint32)[0]), size
        else:
            yield int(word), size


def _fill(device: CudaDevice, address: int, size: int, word: int) -> None:
    device.call("cuMemsetD32Async", address, word, size // 4, device.stream)
