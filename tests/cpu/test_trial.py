from lamina.targets.cpu.trial import Trial


def alone_after(steps: int, together: float, alone: float) -> list[bool]:
    """Run steps that take so many seconds; return which had one worker."""
    trial, found = Trial(), list[bool]()
    for _ in range(steps):
        found.append(trial.alone)
        trial.ran(alone if trial.alone else together)
    return found


def test_small_steps_that_are_no_faster_together_are_walked_alone() -> None:
    found = alone_after(400, together=60e-6, alone=59e-6)
    assert not any(found[:7])
    assert all(found[7:])


def test_small_steps_that_are_faster_together_are_walked_by_all_but_in_trials() -> None:
    found = alone_after(4000, together=60e-6, alone=90e-6)
    assert 0 < sum(found) < 100


def test_large_steps_are_never_walked_alone() -> None:
    assert not any(alone_after(4000, together=2e-3, alone=1e-6))


def test_a_choice_is_looked_at_again() -> None:
    trial = Trial()
    for _ in range(100):
        trial.ran(50e-6 if trial.alone else 60e-6)
    assert trial.alone
    for _ in range(450):
        trial.ran(50e-6 if trial.alone else 20e-6)
    assert not trial.alone


def test_a_step_that_was_held_up_does_not_count() -> None:
    trial = Trial()
    for n in range(14):
        trial.ran(1.0 if n in (0, 5, 7, 12) else 40e-6 if trial.alone else 60e-6)
    assert trial.alone
