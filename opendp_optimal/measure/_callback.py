"""From OpenDP's library to a Python function and back, whatever happens on the way.

Rust cannot catch Python's exceptions. One that leaves a callback of ctypes leaves OpenDP with
whatever was in a register, which it then frees. A ``try`` in a Python function does not help:
Ctrl-C that is pressed while OpenDP works is noticed when the next Python function starts, before
its first line. So what OpenDP calls here is no Python function but an operator in C, which resumes
a generator that waits *inside* its ``try``, a clerk. Whatever is raised there is caught: OpenDP is
handed an error, and what was no mere ``Exception`` (Ctrl-C, the end of the process) is raised again
as soon as OpenDP has returned.

CPython looks for signals when a function starts, when it calls and when it jumps back. The lines
that must not be interrupted do none of this: they read attributes and items whose work is done in
C.

Numbers take a short way: OpenDP's general conversion of any value of any type costs more than the
noise. The same four functions of OpenDP's library serve, without asking for the types, which the
measurement has fixed.
"""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable, Generator
from ctypes import addressof, byref, c_char_p, c_float, c_ulong, c_void_p, py_object
from functools import partial
from operator import attrgetter, or_
from queue import SimpleQueue
from threading import get_ident
from typing import Any
from weakref import ref

from opendp._convert import ATOM_MAP, c_to_py, py_to_c
from opendp._lib import (
    AnyObject,
    AnyObjectPtr,
    CallbackFn,
    CallbackFnPtr,
    CallbackFnValue,
    ExtrinsicObject,
    FfiSlice,
    lib,
)
from opendp.typing import RuntimeType

from opendp_optimal.measure._handover import lazy_frame
from opendp_optimal.measure.space import DTYPES

NUMBERS = frozenset(ATOM_MAP) & frozenset(DTYPES)
_OK = 0
_CLERKS = 8
"""Clerks that wait for calls of one function: so many threads can call in the same instant."""


class _Result(ctypes.Structure):
    """OpenDP's FfiResult, read as what it is when all went well."""

    _fields_ = (("tag", ctypes.c_uint32), ("ok", c_void_p))


def _function(name: str, result: Any, *arguments: Any, library: Any = lib) -> Any:
    """A short function of a library, with a prototype of its own, that keeps the lock."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, library))


_object_as_slice = _function("opendp_data__object_as_slice", _Result, c_void_p)
_slice_free = _function("opendp_data__slice_free", _Result, c_void_p)
_slice_as_object = _function("opendp_data__slice_as_object", _Result, c_void_p, c_char_p)
_result_ok = _function("ffiresult_ok", c_void_p, c_void_p)
_result_err = _function("ffiresult_err", c_void_p, c_char_p, c_char_p)
# Its third argument is nobody's: what partial() cannot leave out.
_error = _function("ffiresult_err", c_void_p, c_char_p, c_char_p, py_object)


class _Python:
    """What is asked of the interpreter and of OpenDP in C, by reading and writing attributes."""

    error = property(partial(_error, b"Interrupted in user-defined function", b""))
    thread = property(
        _function("PyThread_get_thread_ident", c_ulong, py_object, library=ctypes.pythonapi)
    )
    __setitem__ = _function(  # python[thread] = class: to be raised
        "PyThreadState_SetAsyncExc", ctypes.c_int, c_ulong, py_object, library=ctypes.pythonapi
    )


_python: Any = _Python()


class _Desk(SimpleQueue[Any]):
    """Where clerks wait: ``argument | desk`` hands an argument to one, in C."""

    clerk = property(SimpleQueue.get)
    __ror__ = property(attrgetter("clerk.send"))


_caught: dict[int, tuple[BaseException, ref[_Desk], Callable[[int], int]]] = {}


class _Again(BaseException):
    """What was caught in this thread: to make one of these is to get that one back."""

    def __new__(cls, *_: Any) -> Any:
        error, desk, serve = _caught.pop(get_ident())
        _hire(desk, serve)
        return error


class _InterruptedAgain(_Again, KeyboardInterrupt):
    pass


class _ExitAgain(_Again, SystemExit):
    pass


def _clerk(desk: ref[_Desk], serve: Callable[[int], int]) -> Generator[int | None, int, None]:
    """Wait, answer one call, and see to it that somebody waits for the next one."""
    asked = False
    outcome = None
    try:
        try:
            argument = yield None
            asked = True
            _hire(desk, serve)
            outcome = serve(argument)
        except GeneratorExit:
            if not asked:  # nobody can call any more
                return
            raise
        except Exception:
            outcome = _result_err(
                b"Continued stack trace from Exception in user-defined function",
                traceback.format_exc().encode(errors="replace"),
            )
    except BaseException as error:  # from here on nothing looks for signals
        outcome = _python.error
        thread = _python.thread
        _caught[thread] = error, desk, serve
        if error.__class__ is KeyboardInterrupt:
            _python[thread] = _InterruptedAgain
        elif error.__class__ is SystemExit:
            _python[thread] = _ExitAgain
        else:
            _python[thread] = _Again
    yield outcome


def _hire(known: ref[_Desk], serve: Callable[[int], int]) -> None:
    """Let as many clerks wait as there should be, while there is a desk to wait at."""
    desk = known()
    while desk is not None and desk.qsize() < _CLERKS:
        clerk = _clerk(known, serve)
        next(clerk)
        desk.put(clerk)


_trampoline = ctypes.CFUNCTYPE(c_void_p, c_void_p, py_object)(or_)
_dispatch = ctypes.cast(_trampoline, CallbackFnValue)


def _callback(serve: Callable[[int], int]) -> Any:
    """What OpenDP takes in place of a Python function.

    :param serve: takes the address of an object that stays OpenDP's, returns that of a result.
    """
    desk = _Desk()
    _hire(ref(desk), serve)
    callback = CallbackFn(_dispatch, ExtrinsicObject(py_object(desk)))
    return ctypes.cast(ctypes.pointer(callback), CallbackFnPtr)


def number_callback(function: Callable[[Any], Any], carrier: str, result: str) -> Any:
    """Return what OpenDP takes in place of a Python function of one number.

    :param function: takes a number, returns a number.
    :param carrier: OpenDP's name of the type it takes; one of ``NUMBERS``.
    :param result: OpenDP's name of the type it returns; one of ``NUMBERS``.
    """
    given_kind, result_kind = ctypes.POINTER(ATOM_MAP[carrier]), ATOM_MAP[result]
    result_name = result.encode()

    def serve(argument: int) -> int:
        taken = _object_as_slice(argument)
        if taken.tag != _OK:
            raise RuntimeError("OpenDP could not hand over a number")
        handle = taken.ok
        value = given_kind.from_address(handle)[0]  # a slice begins with its pointer
        _slice_free(handle)
        answer = function(value)
        cell = result_kind(answer)
        if cell.value != answer and result_kind is not c_float:
            raise ValueError("the function returned a number that its type does not hold")
        given = _slice_as_object(byref(FfiSlice(addressof(cell), 1)), result_name)
        if given.tag != _OK:
            raise RuntimeError("OpenDP could not take a number")
        packed: int = _result_ok(given.ok)
        return packed

    return _callback(serve)


class _Borrowed(AnyObjectPtr):
    """A pointer to an object that stays OpenDP's."""

    _type_ = AnyObject

    def __del__(self) -> None:
        """Free nothing."""


_Given = ctypes.POINTER(AnyObject)


def callback(
    function: Callable[[Any], Any], result: RuntimeType | str, *, frames: bool = False
) -> Any:
    """Return what OpenDP takes in place of a Python function; its answer is converted by OpenDP.

    :param function: takes and returns values of any type that OpenDP can convert.
    :param result: OpenDP's name of the type it returns.
    :param frames: whether it takes Polars LazyFrames: OpenDP's own conversion makes a Python number
        of every byte of one.
    """
    kind = RuntimeType.parse(result)
    take = _frame if frames else _value

    def serve(argument: int) -> int:
        answer = py_to_c(function(take(argument)), c_type=AnyObjectPtr, type_name=kind)
        packed: int = _result_ok(addressof(answer.contents))
        answer.__class__ = _Given  # OpenDP's now; until here it would be freed, and packed lost
        return packed

    return _callback(serve)


def _value(argument: int) -> Any:
    """A value of any type, at an address."""
    return c_to_py(ctypes.cast(argument, _Borrowed))


def _frame(argument: int) -> Any:
    """A LazyFrame, at an address."""
    taken = _object_as_slice(argument)
    if taken.tag != _OK:
        raise RuntimeError("OpenDP could not hand over a frame")
    handle = taken.ok
    given = FfiSlice.from_address(handle)
    state = ctypes.string_at(given.ptr, given.len)
    _slice_free(handle)
    return lazy_frame(state)
