"""The two parties: a client that keeps its value and its choice, a server that never sees either.

They talk in the messages of :mod:`opendp_optimal_select.messages` and may live on different
machines; ``transport`` below is anything that carries bytes there and back.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import opendp.prelude as dp

from opendp_optimal.budget import Ledger
from opendp_optimal.extend import laplace_scale_up, positive, whole
from opendp_optimal_select.catalogue import Catalogue
from opendp_optimal_select.disutility import Disutility, check_disutility
from opendp_optimal_select.features import FeatureSpace
from opendp_optimal_select.messages import (
    MAX_ANSWERS,
    MAX_ITEM_LENGTH,
    Answer,
    MessageError,
    Noise,
    Request,
    Response,
    encode_error,
)
from opendp_optimal_select.placing import offsets

Transport = Callable[[bytes], bytes]
Preference = Callable[[Any, Answer], float]
"""The client's own disutility: from its value and an answer to a cost."""


@dataclass(eq=False, repr=False)
class _Party(ABC):
    """What both kinds of client share: pay for a signal, send it, choose in private."""

    noise: ClassVar[Noise]
    k: int
    scale: float
    measurement: dp.Measurement
    preference: Preference | None
    ledger: Ledger | None
    name: str | None

    def __post_init__(self) -> None:
        """Check the number of answers, and the budget where there is one."""
        self.k = whole("k", self.k, most=MAX_ANSWERS)
        ledger, name = self.ledger, self.name
        if (ledger is None) != (name is None):
            raise ValueError(f"ledger ({ledger!r}) and name ({name!r}) must be given together")
        if ledger is not None and name is not None:
            if not isinstance(ledger, Ledger):
                raise ValueError(f"ledger ({ledger!r}) must be a Ledger: see open_ledger")
            ledger.budget(name).kind.price(self._price)
            ledger.fix_unit(name, f"{self.measurement.input_metric} at 1.0")

    @property
    def _price(self) -> dict[str, float]:
        """Privacy loss of one release between values at distance 1, as OpenDP's map states it."""
        return {"epsilon" if self.noise == "laplace" else "rho": self.measurement.map(1.0)}

    def privatise(self, value: Any, *, question: str | None = None) -> Request:
        """Return a request holding one private release of ``value``.

        With a ledger the release is charged first, on disk. A question is charged and drawn once:
        asked again, whatever the value, by any process and after any crash, it gets the same noisy
        value for nothing.

        :param value: the private value
        :param question: a name for what is asked, kept in the ledger; it must not describe the
            value
        :raises BudgetError: if it costs more than is left; then nothing is charged or drawn
        """
        private = self._private(value)
        if self.ledger is None or self.name is None:
            if question is not None:
                raise ValueError(f"question ({question!r}) needs a ledger that remembers it")
            return self._draw(private)
        about = f"multi-selection, {self.noise} noise of scale {self.scale!r}"
        paid: dict[str, Any] = {**self._price, "note": about}
        if question is None:
            self.ledger.charge(self.name, **paid)
            return self._draw(private)
        # Whether a question is known must not depend on the value: the service would learn from
        # an equal request that the value is the same, and from another that it is not.
        kept = self.ledger.answer_once(
            self.name, question, about, lambda: self._draw(private).encode(), **paid
        )
        return replace(Request.decode(kept), k=self.k)

    def choose(self, value: Any, response: Response) -> Answer:
        """Return the answer with the smallest disutility. Nothing is sent.

        :param value: the private value
        :param response: what the server answered
        """
        cost = self.preference or self._distance
        return min(response.answers, key=lambda answer: cost(value, answer))

    def ask(self, value: Any, transport: Transport, *, question: str | None = None) -> Answer:
        """Release ``value`` once, fetch the answers and return the best one.

        :param value: the private value
        :param transport: carries the request to the server and brings its answer back
        :param question: a name for what is asked; see :meth:`privatise`
        """
        request = self.privatise(value, question=question)
        return self.choose(value, Response.decode(transport(request.encode()), k=self.k))

    def _draw(self, private: Any) -> Request:
        # Noise may lead beyond the floats: no error may tell, for it depends on the value.
        signal = np.clip(self.measurement(private), -sys.float_info.max, sys.float_info.max)
        return Request(signal.tolist(), self.noise, self.scale, self.k)

    @abstractmethod
    def _private(self, value: Any) -> Any:
        """Return the value as the measurement takes it; a message must not show it."""

    @abstractmethod
    def _distance(self, value: Any, answer: Answer) -> float:
        """Return the distance to use when there is no preference."""


class Client(_Party):
    """A user with a private number.

    Without a question every call of :meth:`privatise` or :meth:`ask` is a new release: two of them
    about the same value lose ``2 * epsilon`` per unit of distance. Keep the request to ask again
    for free, or give a ledger and name the question.

    :param epsilon: privacy loss per unit of distance
    :param k: number of answers to ask for
    :param preference: own disutility of an answer; the distance to its position by default
    :param ledger: where this user's budget is kept; see :func:`opendp_optimal.budget.open_ledger`
    :param name: of the budget: an epsilon per unit of distance, for all releases together

    >>> dp.enable_features("contrib")
    >>> client = Client(epsilon=1.0, k=3)
    >>> server = Server(Catalogue(range(100), [f"page {i}" for i in range(100)]))
    >>> answer = client.ask(41.7, server.handle)
    >>> answer.item.startswith("page ")
    True
    """

    noise = "laplace"

    def __init__(
        self,
        epsilon: float,
        k: int,
        *,
        preference: Preference | None = None,
        ledger: Ledger | None = None,
        name: str | None = None,
    ) -> None:
        """Check the arguments and build the measurement."""
        self.epsilon = positive("epsilon", epsilon)
        scale = laplace_scale_up(self.epsilon)
        space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
        measurement = dp.m.make_laplace(*space, scale=scale)
        super().__init__(k, scale, measurement, preference, ledger, name)

    def _private(self, value: float) -> float:
        return _private_number(value)

    def _distance(self, value: float, answer: Answer) -> float:
        if isinstance(answer.position, tuple):
            raise MessageError("position must be a number")
        return abs(_private_number(value) - answer.position)


class FeatureClient(_Party):
    """A user with a private feature vector, released with Gaussian noise under zCDP.

    :param scale: standard deviation of the noise on each feature
    :param k: number of answers to ask for: ``(2 per_side + 1) ** directions`` of the server
    :param dimension: number of features
    :param preference: own disutility of an answer; the distance to its position by default
    :param ledger: where this user's budget is kept; see :func:`opendp_optimal.budget.open_ledger`
    :param name: of the budget: a rho between features at distance 1, for all releases together
    """

    noise = "gaussian"

    def __init__(
        self,
        scale: float,
        k: int,
        dimension: int,
        *,
        preference: Preference | None = None,
        ledger: Ledger | None = None,
        name: str | None = None,
    ) -> None:
        """Check the arguments and build the measurement."""
        scale = positive("scale", scale)
        self.dimension = whole("dimension", dimension)
        domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), self.dimension)
        measurement = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
        super().__init__(k, scale, measurement, preference, ledger, name)

    def _private(self, value: Sequence[float]) -> list[float]:
        # What can be read only once would be gone when the answers come.
        if not hasattr(value, "__len__") or np.ndim(value) != 1:
            raise ValueError(f"value must be a list of {self.dimension} features")
        features = [_private_number(x) for x in value]
        if len(features) != self.dimension:
            raise ValueError(f"value must have {self.dimension} features")
        return features

    def _distance(self, value: Sequence[float], answer: Answer) -> float:
        if not isinstance(answer.position, tuple) or len(answer.position) != self.dimension:
            raise MessageError(f"position must have {self.dimension} coordinates")
        return math.dist(self._private(value), answer.position)


class Server:
    """A catalogue, its ``OPT`` map and the responder for both.

    A :class:`~opendp_optimal_select.catalogue.Catalogue` answers Laplace signals, a
    :class:`~opendp_optimal_select.features.FeatureSpace` Gaussian ones. Items must be strings or
    integers.

    :param catalogue: what can be answered, with its ``OPT`` map
    :param disutility: the cost, as a function of distance, that the offsets are optimal for
    :param max_answers: the largest ``k`` that is served
    """

    def __init__(
        self,
        catalogue: Catalogue | FeatureSpace,
        *,
        disutility: Disutility | None = None,
        max_answers: int = 100,
    ) -> None:
        """Check the arguments."""
        if not isinstance(catalogue, (Catalogue, FeatureSpace)):
            raise ValueError(
                f"catalogue (a {type(catalogue).__name__}) must be a Catalogue or a FeatureSpace"
            )
        if disutility is not None:
            if isinstance(catalogue, FeatureSpace):
                raise ValueError("disutility must be None for a FeatureSpace")
            check_disutility(disutility, epsilon=1.0)
        self.catalogue = catalogue
        self.disutility = disutility
        self.max_answers = whole("max_answers", max_answers, most=MAX_ANSWERS)
        items: Any = catalogue.items
        for item in (items[0], items[-1]) if isinstance(items, range) else items:
            # Exact types: subclasses and numpy's numbers do not survive JSON unchanged.
            if type(item) not in (str, int):
                raise ValueError(f"items (of type {type(item).__name__}) must be str or int")
            if isinstance(item, int) and abs(item) >= 2**63:
                raise ValueError(f"items ({item}) must fit in 64 bits")
            if isinstance(item, str) and len(item) > MAX_ITEM_LENGTH:
                raise ValueError(f"items must be at most {MAX_ITEM_LENGTH} characters long")
        self._offsets = lru_cache(maxsize=256)(self._fresh_offsets)

    @property
    def noise(self) -> Noise:
        """The kind of noise this server answers."""
        return "laplace" if isinstance(self.catalogue, Catalogue) else "gaussian"

    def respond(self, request: Request) -> Response:
        """Return ``request.k`` distinct answers.

        :param request: what a client sent
        """
        limit = min(self.max_answers, len(self.catalogue))
        if request.k > limit:
            raise MessageError(f"k ({request.k}) must be at most {limit}")
        if request.noise != self.noise:
            raise MessageError(f"noise must be {self.noise!r} for this catalogue")
        catalogue: Any = self.catalogue
        indices = self._indices(request)
        return Response(tuple(Answer(catalogue.item(i), catalogue.position(i)) for i in indices))

    def handle(self, data: bytes) -> bytes:
        """Return the encoded response to an encoded request; an error message if it is bad.

        Never raises for anything a client can send.

        :param data: an encoded request
        """
        try:
            return self.respond(Request.decode(data)).encode()
        except MessageError as error:
            return encode_error(str(error))

    def _indices(self, request: Request) -> Any:
        signal: Any = request.signal  # as the request has checked, a tuple for Gaussian noise only
        if isinstance(self.catalogue, Catalogue):
            steps = self._offsets(request.k, request.scale)
            if not all(math.isfinite(signal + step) for step in steps):
                raise MessageError("signal and scale must keep every answer finite")
            return self.catalogue.answer_batch([signal], steps)[0].tolist()
        space = self.catalogue
        if len(signal) != space.dimension:
            raise MessageError(f"signal must have {space.dimension} coordinates")
        per_side = _per_side(request.k, space.directions)
        with np.errstate(over="ignore", invalid="ignore"):
            try:
                return space.answer_batch([signal], request.scale, per_side)[0].tolist()
            except ValueError:
                raise MessageError("signal and scale must keep every answer finite") from None

    def _fresh_offsets(self, k: int, scale: float) -> tuple[float, ...]:
        try:
            return offsets(k, epsilon=1.0 / scale, disutility=self.disutility)
        except (ArithmeticError, RuntimeError, ValueError):
            raise MessageError(f"scale ({scale}) must be one this server can answer") from None


def _private_number(value: Any) -> float:
    """Return a finite float; the message must not show the value."""
    if isinstance(value, (bool, str, bytes)):
        raise ValueError("value must be a finite number")
    value = value.item() if isinstance(value, np.generic) else value
    try:
        number = float(value)
        exact = Fraction(value) == Fraction(number)
    except (TypeError, ValueError, OverflowError):  # Fraction refuses NaN and infinity
        raise ValueError("value must be a finite number") from None
    if not exact:
        # Rounding moves values apart: what is lost then is more than is said.
        raise ValueError("value must be a finite number that a float holds exactly")
    return number


def _per_side(k: int, directions: int) -> int:
    per_axis: int = round(float(k) ** (1.0 / directions))
    if per_axis**directions != k or per_axis % 2 == 0 or per_axis < 3:
        raise MessageError(f"k must be an odd number, 3 or more, to the power {directions}")
    return per_axis // 2
