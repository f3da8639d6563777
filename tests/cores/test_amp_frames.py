"""Frames of AMp: what is encoded is read, and whatever breaks a rule is nothing. And the settings."""

import pytest
from msgspec import msgpack
from msgspec.structs import replace
from support.amp_samples import AMP_FRAMES, SL, A, control

from rostra.errors import BadInput
from rostra.protocols.atomic.amp_config import AmpConfig
from rostra.protocols.atomic.frames import (
    ACK,
    SUSPEND,
    WAIT,
    AnyAmpFrame,
    DataFrame,
    decode_frame,
    encode_frame,
    is_sound,
)
from rostra.wire.numbers import DATAGRAMS


@pytest.mark.spec("A-012", "A-015", "A-018", "A-019")
@pytest.mark.parametrize("frame", AMP_FRAMES, ids=lambda each: type(each).__name__)
def test_what_is_encoded_is_read(frame: AnyAmpFrame) -> None:
    assert is_sound(frame)
    assert decode_frame(encode_frame(frame)) == frame


@pytest.mark.spec("A-019")
def test_there_is_a_sample_of_every_frame_and_every_frame_has_a_number_of_amp() -> None:
    numbers = {number for number, kind in DATAGRAMS.items() if kind in {type(each) for each in AMP_FRAMES}}
    assert numbers == set(range(80, 91))


@pytest.mark.spec("A-012")
def test_a_frame_of_an_unknown_type_is_dropped() -> None:
    octets = msgpack.encode([99, *msgpack.decode(msgpack.encode(AMP_FRAMES[0]))[1:]])
    assert decode_frame(octets) is None


@pytest.mark.spec("A-017")
def test_a_suspension_level_is_there_exactly_with_the_attribute() -> None:
    with_level = DataFrame(replace(control(ACK | WAIT, 5), sl=SL), (b"x",))
    without = DataFrame(replace(control(ACK | WAIT | SUSPEND, 5), sl=None), (b"x",))
    for frame in (with_level, without):
        assert decode_frame(encode_frame(frame)) is None


@pytest.mark.spec("A-015")
def test_data_without_a_number_is_no_frame() -> None:
    assert not is_sound(DataFrame(control(ACK), (b"x",)))
    assert not is_sound(DataFrame(control(ACK, 5, mtn=0), (b"x",)))


def test_a_station_in_another_life_is_another_station() -> None:
    assert replace(A, life=A.life + 1) != A


@pytest.mark.parametrize(
    "settings",
    [
        {"wait_decision_s": 0.2},
        {"suspend_s": 0.2},
        {"flush_s": 0.44},
        {"response_s": 0.01},
        {"omissions": -1},
        {"queue_max": 0},
        {"order": "medium", "shared_medium": True},
    ],
)
def test_settings_that_break_an_inequality_are_refused(settings: dict[str, object]) -> None:
    AmpConfig()
    with pytest.raises(BadInput):
        AmpConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.spec("A-044")
def test_the_order_of_the_medium_is_refused_where_there_is_none() -> None:
    with pytest.raises(BadInput, match="one medium"):
        AmpConfig(faults="bounded", order="medium")
    assert AmpConfig.bus().order == "medium"
