"""Events in the usual form of the server are decoded when they are asked for, several at a time. They must be the same as
those that are decoded one by one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import pytest

from reprise import End, ProtocolError, Reprise
from reprise.events import Event

REST = ".0123456789ABCDEF.0123456789ABC"
TIME = "2026-11-20T09:30:00.000Z"
VALUES: list[object] = [
    1,
    None,
    'a"b\\',
    {"n": 12, "list": [1, {"}": "]"}]},
    [],
    "\u2028\U0001f98a",
    {"data": 3, "seq": 3},
    '"data":1}',
    "\n\n",
]


def block(seq: int, member: str, type: str = "note") -> bytes:
    return f'event: {type}\ndata: {{"seq":{seq},"time":"{TIME}",{member}}}\nid: {seq}{REST}\n\n'.encode()


def feed(body: bytes, size: int) -> Iterator[Event]:
    with Reprise("http://127.0.0.1:1", token="secret") as client:
        flow = client.streams.follow("x")._flow
        assert not flow.begin("")
        list(flow.answered({}))
        first = body.index(b"\n\n") + 2  # decoded as it is: the form of the cursors is not known before
        yield from flow.feed(body[:first])
        for at in range(first, len(body), size):
            yield from flow.feed(body[at : at + size])


@pytest.mark.parametrize("seed", range(8))
def test_events_of_all_forms_taken_in_any_order(seed: int) -> None:
    rng = random.Random(seed)
    want, body = [], b"retry: 1\n"
    for seq in range(1, 600):
        value, is_text = rng.choice(VALUES), rng.random() < 0.2
        text = str(value)
        member = f'"text":{json.dumps(text)}' if is_text else f'"data":{json.dumps(value, ensure_ascii=rng.random() < 0.5)}'
        type = rng.choice(["note", "note", "stdout", "started"])
        body += block(seq, member, type) + (b":\n" if rng.random() < 0.02 else b"")
        want.append((seq, type, None if is_text else value, text if is_text else None))
    got = 0
    for event, (seq, type, value, text_of) in zip(feed(body, rng.choice([7, 300, 5000, 1 << 20])), want, strict=True):
        assert (event.seq, event.type, event.cursor) == (seq, type, f"{seq}{REST}")
        for _ in range(rng.randrange(3)):
            assert event.data == value
        if rng.random() < 0.3:
            assert event.object["time"] == TIME and event.object.get("data") == value
        if text_of is not None:
            assert event.text == text_of
        got += 1
    assert got == 599


def test_a_damaged_value_fails_where_it_is_asked_for_and_no_other() -> None:
    damaged = ['"data":{"n":', '"data":1,2', '"data":', '"data":5}']
    body = b"".join(block(n, damaged[n % 4] if n % 25 == 7 else f'"data":{{"n":{n}}}') for n in range(1, 200))
    failed = 0
    for event in feed(body, 1 << 20):
        if event.seq % 25 == 7:
            with pytest.raises(ProtocolError):
                _ = event.data
            failed += 1
        else:
            assert event.data == {"n": event.seq}
    assert failed == 8


def test_members_around_the_value() -> None:
    """An object may have more members after the published value, and nested ones of its name."""
    members = ['"data":1,"more":[2]', '"other":{"data":2}', '"text":"a"', '"base64":"AAE="', '"data":{"data":4}']
    body = b"".join(block(n, members[n % 5]) for n in range(1, 100))
    want = [1, None, None, None, {"data": 4}]
    assert [event.data for event in feed(body, 1 << 20)] == [want[n % 5] for n in range(1, 100)]


def test_a_changed_value_stays_changed() -> None:
    first, second = feed(block(1, '"data":{"n":1}') + block(2, '"data":{"n":2}'), 1 << 20)
    for event in (first, second):
        event.data["n"] = 7
        assert event.object["data"] == {"n": 7} == event.data


@pytest.mark.parametrize("seqs", [[1, 2, 4], [1, 2, 3, 3, 4], [1, 3, 2]])
def test_a_hole_or_a_repeated_event_in_a_run(seqs: list[int]) -> None:
    events = feed(b"".join(block(seq, f'"data":{seq}') for seq in seqs), 1 << 20)
    if sorted(set(seqs)) == [1, 2, 3, 4]:
        assert [event.seq for event in events] == [1, 2, 3, 4]
    else:
        with pytest.raises(ProtocolError):
            list(events)


@pytest.mark.parametrize("last", [3, 4])
def test_an_event_of_another_form_in_a_run(last: int) -> None:
    other = block(3, '"data":3').replace(b',"data"', b',\ndata: "data"')  # the last one of its chunk, or not
    body = block(1, '"data":1') + block(2, '"data":2') + other + block(4, '"data":4') * (last - 3)
    assert [event.data for event in feed(body, 1 << 20)] == list(range(1, last + 1))


def test_the_end_in_a_run() -> None:
    *events, end = feed(block(1, '"data":1') + block(2, '"data":2') + block(3, '"outcome":"completed"', "end"), 1 << 20)
    assert [event.data for event in events] == [1, 2]
    assert isinstance(end, End) and end.outcome == "completed"


DAMAGED = {
    "an id that differs from the seq": block(3, '"data":3').replace(b"id: 3", b"id: 4"),
    "a seq that differs from the id": block(3, '"data":3').replace(b'"seq":3', b'"seq":4'),
    "a comment in place of the empty line": block(3, '"data":3')[:-1] + b":\n",
    "a line that is cut": block(3, '"data":3').replace(b"3}\n", b"3\n"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_event_in_a_run(name: str) -> None:
    body = block(1, '"data":1') + block(2, '"data":2') + DAMAGED[name] + block(4, '"data":4')
    events = feed(body, 1 << 20)
    assert [next(events).data, next(events).data] == [1, 2]
    with pytest.raises(ProtocolError):
        next(events)
