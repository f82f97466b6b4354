"""The example packages, installed, pass their own tests: here a few, all in `make examples`."""

from collections.abc import Callable


def test_an_operation_in_a_package_of_its_own_runs_on_the_targets_of_the_box(
    passes: Callable[[str, str], None],
) -> None:
    passes("softcap", "test_")


def test_a_target_in_a_package_of_its_own_runs_a_whole_model(
    passes: Callable[[str, str], None], needs: Callable[..., str]
) -> None:
    needs("cc", package="gcc")
    passes("c_target", "not (case or zoo) or case and (llama or softmax) or top_k")
