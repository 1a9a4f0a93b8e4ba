"""The order of a queue, whichever way pods come and go, against a list that is sorted each time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubesched.scheduler.queue import QueuedPod
from kubesched.scheduler.queue.keyed_heap import KeyedHeap
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
