"""Ctrl-C at any moment of a chained release: it is raised, and the process lives on."""

import json
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import opendp.prelude as dp
import pytest

from opendp_optimal.extend import make_measurement, make_transformation, postprocess

dp.enable_features("contrib")

SPACE = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
SCRIPT = Path(__file__).with_name("interrupted.py")


@pytest.mark.process
def test_a_rain_of_interrupts_ends_no_process() -> None:
    command = [sys.executable, SCRIPT, "1.5"]
    pause = random.Random(1)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        while child.poll() is None:
            child.send_signal(signal.SIGINT)
            time.sleep(pause.uniform(0.001, 0.005))
        seen = json.loads(child.stdout.read() or "{}")
    assert child.returncode == 0
    assert sum(interrupted for interrupted, _ in seen.values()) >= 3, seen


class Stop(BaseException):
    """No Exception: what Polars raises on a panic is such a thing."""


KINDS = {"number": ("f64", 1.0), "vector": ("Vec<f64>", [1.0]), "object": ("ExtrinsicObject", {})}


def raising(error: BaseException, armed: list[bool], value: object) -> object:
    def function(_: object) -> object:
        if armed[0]:
            raise error
        return value

    return function


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(3), Stop("words"), MemoryError()]
)
def test_what_a_function_raises_is_raised_after_opendp(kind: str, error: BaseException) -> None:
    to, value = KINDS[kind]
    armed = [True]
    function = raising(error, armed, value)
    inner = make_measurement(*SPACE, dp.max_divergence(), function, lambda d: d, to)
    clamp = dp.vector_domain(dp.atom_domain(bounds=(0.0, 1.0))), dp.symmetric_distance()
    chain = clamp >> dp.t.then_sum() >> inner
    expected = dp.OpenDPException if isinstance(error, Exception) else type(error)
    for _ in range(2):
        with pytest.raises(expected) as caught:
            chain([0.5])
        assert isinstance(error, Exception) or caught.value is error
    armed[0] = False
    assert chain([0.5]) == value


@pytest.mark.slow
def test_maps_transformations_and_functions_after_a_release() -> None:
    armed = [True]
    stop = Stop()
    number = raising(stop, armed, 1.0)
    plain = make_measurement(*SPACE, dp.max_divergence(), lambda x: x, number, "f64")
    moved = make_transformation(*SPACE, *SPACE, number, lambda d: d)
    mapped = make_transformation(*SPACE, *SPACE, lambda x: x, number)
    after = postprocess(plain, number, "f64")
    calls = [
        lambda: plain.map(1.0),
        lambda: moved(1.0),
        lambda: mapped.map(1.0),
        lambda: after(1.0),
    ]
    for call in calls:
        with pytest.raises(Stop):
            call()
    armed[0] = False
    assert [call() for call in calls] == [1.0] * 4


def test_calls_within_calls_and_from_many_threads() -> None:
    def make(function: object) -> dp.Measurement:
        return make_measurement(*SPACE, dp.max_divergence(), function, lambda d: d, "Vec<f64>")

    def deeper(x: float) -> list[float]:
        return [x] if x > 30 else nested(x + 1.0)

    nested = make(deeper)
    assert nested(1.0) == [31.0]
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(make(lambda x: [x]), map(float, range(2_000)), timeout=60))
    assert answers == [[float(x)] for x in range(2_000)]
