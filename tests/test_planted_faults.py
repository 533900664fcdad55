import pytest

from tests.planted_faults import FAULTS, Fault, plant, text_with

every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)


@every_fault
def test_the_fault_can_still_be_planted(fault: Fault) -> None:
    compile(text_with(fault), fault.file, "exec")


def test_the_list_is_long_and_its_names_differ() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 14


@pytest.mark.soak
@every_fault
def test_a_planted_fault_is_noticed(fault: Fault) -> None:
    assert plant(fault) is not None, "no test notices it"
