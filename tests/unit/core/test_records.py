from refusal_checks.core.records import spread
from tests.unit.conftest import records


def test_records_are_looked_at_in_all_parts_of_a_benchmark() -> None:
    five = records("R C R C R")
    assert spread(five, 9) == five
    assert spread(five, 2) == [five[0], five[2]]
    assert spread([], 2) == []
