"""How arms were tuned, in the report of a sweep."""

from pathlib import Path
from typing import Any

from supple.engine.storage.signed_json import write_json
from supple.reports.tables.published import tuning_tables

TUNED: dict[str, Any] = {
    "method": "tpe", "points": 2, "seeds": [100, 101], "share": 0.2, "measure": "final return", "hours": 1.5,
    "arms": {"l2(strength={s})": [
        {"arm": "l2(strength=1)", "score": 3.0, "seconds": 1.0},
        {"arm": "l2(strength=9)", "score": None, "seconds": 0.0},
    ]},
    "chosen": {"l2(strength={s})": "l2(strength=1)"},
}  # fmt: skip


def test_tuning_has_a_table_of_chosen_points_and_one_of_all_points(tmp_path: Path) -> None:
    write_json(tmp_path / "tuned.json", TUNED)
    chosen, every = tuning_tables(tmp_path)
    assert chosen.texts[1:] == [["l2(strength={s})", "l2(strength=1)", "3", "3 to 3", "1"]]
    assert len(every.rows) == 2
    assert tuning_tables(tmp_path / "untuned") == []
    assert all(word in chosen.words for word in ("tpe", "100, 101", "20%", "1.5 hours"))
