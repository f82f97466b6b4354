"""`lamina bench`: how fast a model runs, beside the limits of the machine and beside others."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from lamina.cli.bench_report import bench_json, print_bench
from lamina.cli.options import (
    DebugOption,
    FallbackOption,
    JsonOption,
    ModelArgument,
    TargetOption,
    ThreadsOption,
    read_path,
    said_of,
    with_fallback,
)
from lamina.cli.output import emit_json, working
from lamina.cli.subject import Asked, DimsOption, prompt_tokens_option, subject_of, tokens_option

if TYPE_CHECKING:
    from lamina.measure.limits import Limits
    from lamina.targets.base import Executable, Target
    from lamina.targets.cpu.features import CpuFeatures

_PROMPT_TOKENS: Final = 512
_TOKENS: Final = 64


def bench(
    model: ModelArgument,
    prompt_tokens: Annotated[int | None, prompt_tokens_option(_PROMPT_TOKENS)] = None,
    tokens: Annotated[int | None, tokens_option(_TOKENS)] = None,
    dim: DimsOption = None,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rounds of which the medians count.")
    ] = 5,
    peers: Annotated[
        str,
        typer.Option(
            "--vs",
            metavar="PEERS",
            show_default=False,
            help="Take turns with these: llama.cpp, onnxruntime, openvino, torch; with commas.",
        ),
    ] = "",
    peer_python: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            parser=read_path,
            show_default="this one",
            help="The Python interpreter that has the peers.",
        ),
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option(
            "--assert",
            metavar="NAME>=X",
            show_default=False,
            help="End with 1 unless a phase has X tokens a second, or a kernel X % of its limit; "
            "repeatable.",
        ),
    ] = None,
    target: TargetOption = "auto",
    fallback: FallbackOption = "host",
    threads: ThreadsOption = None,
    json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Measure a model: its speed, and where the time goes, beside what the machine can do.

    A decoder reads a prompt and writes, any other model is called on made-up inputs. Rates are
    medians; the table of kernels comes from one more run, whose steps are noted.

    Examples:

      lamina bench smollm2 --threads 2

      lamina bench model.gguf --vs llama.cpp --peer-python ~/peers/bin/python

      lamina bench folder/ --dim B=16 --dim L=64 --json

      lamina bench smollm2 --assert "decode>=100" --assert "decode/linear_5>=70"
    """
    from lamina import compiler
    from lamina.frontend.fetch import resolve_model
    from lamina.measure.bounds import Bound, check_bounds
    from lamina.measure.peers.peer import check_peers, running
    from lamina.measure.rounds import measure
    from lamina.targets.spec import target_spec
    from lamina.targets.text_executable import without_texts

    held = [Bound.of(text) for text in bounds or ()]
    names = list(dict.fromkeys(name.strip() for name in peers.split(",") if name.strip()))
    python = None if peer_python is None else str(peer_python)
    asked = Asked(_PROMPT_TOKENS, _TOKENS, prompt_tokens, tokens, dim or (), names)
    path = resolve_model(model)
    target = with_fallback(target, fallback)
    read = compiler.read(path, defer=True)
    check_peers(names, read, python)
    with working(f"Preparing {path.name}{said_of(target)}"):
        chosen = compiler.resolve_target(target, read, threads)
        executable = compiler.compile(read, chosen)
        subject, prompt = subject_of(read, executable, asked)
    code = without_texts(executable)
    workers = _threads(code, threads)
    with working("Measuring the machine"):
        limits = _limits(code, compiler.resolve_target(target, read), workers, repeat)
    with ExitStack() as stack, working(f"Measuring {path.name}"):
        source, room = read.source or path, len(prompt) + subject.phases[-1].tokens
        others = [
            stack.enter_context(running(name, source, workers, room, python)) for name in names
        ]
        weights = read.weights.nbytes
        results = measure(
            subject, executable, limits, weights, repeat=repeat, peers=others, prompt=prompt
        )
    about = {
        "model": str(path),
        "target": target_spec(chosen),
        "weights_bytes": weights,
        "repeat": repeat,
    }
    builds = {each.name: each.build for each in others}
    if json:
        emit_json(bench_json(about, limits, builds, results))
    else:
        print_bench(about, limits, builds, results)
    check_bounds(held, results)


def _limits(executable: "Executable", target: "Target", threads: int, rounds: int) -> "Limits":
    """Measure what the code runs on: a device by itself, or the CPU."""
    from lamina.measure.device_limits import measure_device_limits
    from lamina.measure.limits import measure_limits
    from lamina.targets.devices.executable import DeviceExecutable

    if isinstance(executable, DeviceExecutable):
        on_device = cast("DeviceExecutable[Any, Any, Any]", executable)
        return measure_device_limits(on_device, target, rounds=rounds)
    return measure_limits(threads, rounds=rounds, features=_features(executable))


def _threads(executable: "Executable", asked: int | None) -> int:
    from lamina.targets.cpu.executable import CpuExecutable
    from lamina.targets.cpu.threads import thread_count

    return executable.threads if isinstance(executable, CpuExecutable) else thread_count(asked)


def _features(executable: "Executable") -> "CpuFeatures":
    """Return what the code may use: its limits are those of the same vectors."""
    from lamina.targets.cpu.executable import CpuExecutable
    from lamina.targets.cpu.features import detect

    return detect(executable.level if isinstance(executable, CpuExecutable) else None)
