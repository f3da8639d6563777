"""The least pin is known without looking at all of them, and is what looking at all of them would say."""

from hypothesis import given
from hypothesis import strategies as st

from rostra.names import Endpoint
from rostra.protocols.flow.stability import Pins

RECEIVERS = [Endpoint(f"huji.h1/r{number}#1") for number in range(4)]
DEEDS = st.tuples(
    st.sampled_from(("pin", "acknowledge", "unpin", "lift", "look")),
    st.sampled_from(RECEIVERS),
    st.integers(1, 6),
)


@given(st.lists(DEEDS, max_size=60))
def test_the_least_pin_is_the_least_of_all(deeds):
    pins = Pins(0)
    for deed, receiver, number in deeds:
        match deed:
            case "pin":
                pins.pin(receiver, number)
            case "acknowledge":
                pins.acknowledge(receiver, number)
            case "unpin":
                pins.unpin(receiver)
            case "lift":
                pins.lift(number)
            case "look":
                assert pins.least(4) == min([4, *pins.local.values()])
    assert pins.least(9) == min([9, *pins.local.values()])
