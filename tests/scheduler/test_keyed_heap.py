"""The order of a queue, whichever way pods come and go, against a list that is sorted each time."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kubesched.clock import Chance
from kubesched.scheduler.queue import QueuedPod
from kubesched.scheduler.queue.keyed_heap import LAST, KeyedHeap
from kubesched.state.pod_info import PodInfo
from tests.build import make_pod

PODS = [QueuedPod(PodInfo(make_pod(f"p{number}").obj()), 0.0) for number in range(8)]
STEPS = st.one_of(
    st.tuples(st.just("push"), st.integers(0, len(PODS) - 1), st.integers(0, 3)),
    st.tuples(st.just("remove"), st.integers(0, len(PODS) - 1), st.just(0)),
    st.tuples(st.just("pop"), st.just(0), st.just(0)),
)


@given(st.lists(STEPS, max_size=60))
def test_the_first_in_order_is_popped_first(steps):
    rank: dict[str, int] = {}
    heap = KeyedHeap(lambda pod: rank[pod.uid])
    model: list[QueuedPod] = []
    for what, number, key in steps:
        pod = PODS[number]
        if what == "pop":
            assert heap.pop() is (model.pop(0) if model else None)
        elif what == "remove":
            assert heap.remove(pod.uid) is (pod if pod in model else None)
            model = [kept for kept in model if kept is not pod]
        else:
            rank[pod.uid] = key
            heap.push(pod)
            model = sorted([kept for kept in model if kept is not pod] + [pod], key=lambda each: rank[each.uid])
        assert heap.in_order() == model
        assert heap.peek() is (model[0] if model else None)
        assert len(heap) == len(model)
    assert [heap.pop() for _ in model] == model


def test_those_that_left_do_not_pile_up_behind_one_that_stays():
    heap = KeyedHeap(lambda _: 0)
    heap.push(PODS[0])
    for number in range(1000):
        pod = PODS[1 + number % 7]
        heap.push(pod)
        heap.remove(pod.uid)
    assert len(heap._line) + len(heap._heap) <= 66


#: What a plugin's keys may come to, by pod; nothing else is said of the order than that all are there.
ODD_KEYS = [1, "text", None, 2, (1, "a"), (1, 2), float("nan"), "text", 3, 0, (0,), [], 1, LAST]


def test_keys_that_cannot_be_compared_lose_no_pod(caplog):
    chance = Chance(7)
    for _ in range(200):
        keys: dict[str, object] = {}
        heap = KeyedHeap(_key_in(keys))
        left = set()
        for number in range(150):
            pod = QueuedPod(PodInfo(make_pod(f"p{number}").uid(f"u{number}").obj()), 0.0)
            keys[pod.uid] = chance.choice(ODD_KEYS)
            heap.push(pod)
            left.add(pod.uid)
            if chance.random() < 0.3:
                left.remove(_popped(heap))
            if left and chance.random() < 0.4:
                removed = chance.choice(sorted(left))
                assert heap.remove(removed) is not None
                left.remove(removed)
            assert {pod.uid for pod in heap.in_order()} == left if number % 50 == 0 else len(heap) == len(left)
        while left:
            left.remove(_popped(heap))
        assert heap.pop() is None
    assert "pods cannot be put in order" in caplog.text


def test_pods_with_keys_that_can_be_compared_go_before_those_that_lost_theirs():
    keys = {"u0": 5, "u1": "text", "u2": 2, "u3": 1}
    heap = KeyedHeap(lambda pod: keys[pod.uid])
    for uid in keys:
        heap.push(QueuedPod(PodInfo(make_pod(uid).uid(uid).obj()), 0.0))
    assert [_popped(heap) for _ in keys] == ["u3", "u2", "u0", "u1"]


def _key_in(keys: dict[str, object]) -> Callable[[QueuedPod], object]:
    return lambda pod: keys[pod.uid]


def _popped(heap: KeyedHeap) -> str:
    pod = heap.pop()
    assert pod is not None
    return pod.uid
