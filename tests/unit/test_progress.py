from lamina.progress import listening, report


def test_a_report_without_a_listener_is_lost() -> None:
    report("work", 1, 2)


def test_a_listener_hears_what_is_done_inside() -> None:
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *told: heard.append(told)):
        report("work", 1, 2)
    report("work", 2, 2)
    assert heard == [("work", 1, 2)]


def test_only_the_inner_of_two_listeners_hears() -> None:
    outer: list[str] = []
    inner: list[str] = []
    with listening(lambda work, *_: outer.append(work)):
        with listening(lambda work, *_: inner.append(work)):
            report("one", 1, 1)
        report("two", 1, 1)
    assert (outer, inner) == (["two"], ["one"])
