"""What an interrupted process does before it ends."""

from supple.registry.interruption import at_interruption, undo


def test_all_actions_are_called_even_if_one_fails_and_the_innermost_text_is_said() -> None:
    called: list[int] = []
    with at_interruption(lambda: called.append(1)), at_interruption(lambda: "outer"), at_interruption(lambda: "inner"):
        with at_interruption(lambda: 1 / 0):  # type: ignore[arg-type,return-value]
            assert undo() == "inner"
        assert called == [1]
    assert undo() == ""
