"""A short way from OpenDP to a Python function of one number, and back.

OpenDP calls a measurement written in Python through a general conversion of any value of any type,
which costs more than the noise. Numbers take the way below: the same four functions of OpenDP's
library, without asking for the types, which the measurement has fixed.
"""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable
from ctypes import addressof, byref, c_float, c_void_p
from typing import Any

from opendp._convert import ATOM_MAP
from opendp._lib import (
    CallbackFn,
    CallbackFnPtr,
    CallbackFnValue,
    ExtrinsicObject,
    FfiSlice,
    lib,
)

NUMBERS = frozenset(ATOM_MAP) & {
    *("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u32", "u64", "usize")
}
_OK = 0


class _Result(ctypes.Structure):
    """OpenDP's FfiResult, read as what it is when all went well."""

    _fields_ = (("tag", ctypes.c_uint32), ("ok", ctypes.c_void_p))


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """A short function of OpenDP's library, with a prototype of its own, that keeps the lock."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, lib))


_object_as_slice = _function("opendp_data__object_as_slice", _Result, ctypes.c_void_p)
_slice_free = _function("opendp_data__slice_free", _Result, ctypes.c_void_p)
_slice_as_object = _function(
    "opendp_data__slice_as_object", _Result, ctypes.c_void_p, ctypes.c_char_p
)
_result_ok = _function("ffiresult_ok", ctypes.c_void_p, ctypes.c_void_p)
_result_err = _function("ffiresult_err", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


def _invoke(argument: int, userdata: tuple[Callable[[Any], Any], Any, Any, bytes]) -> Any:
    """Call the function on the number behind OpenDP's pointer, which stays OpenDP's."""
    try:
        function, kind, result_kind, result_name = userdata
        taken = _object_as_slice(argument)
        if taken.tag != _OK:
            raise RuntimeError("OpenDP could not hand over a number")
        handle = taken.ok
        value = kind.from_address(c_void_p.from_address(handle).value).value  # the slice's pointer
        _slice_free(handle)
        result = function(value)
        cell = result_kind(result)
        if cell.value != result and result_kind is not c_float:
            raise ValueError("the function returned a number that its type does not hold")
        given = _slice_as_object(byref(FfiSlice(addressof(cell), 1)), result_name)
        if given.tag != _OK:
            raise RuntimeError("OpenDP could not take a number")
        return _result_ok(given.ok)
    except Exception:  # as OpenDP does: Rust cannot catch Python's exceptions
        return _result_err(
            b"Continued stack trace from Exception in user-defined function",
            traceback.format_exc().encode(),
        )


_trampoline = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object)(_invoke)
_dispatch = ctypes.cast(_trampoline, CallbackFnValue)


def number_callback(function: Callable[[Any], Any], carrier: str, result: str) -> Any:
    """Return what OpenDP takes in place of a Python function.

    :param function: takes a number, returns a number.
    :param carrier: OpenDP's name of the type it takes; one of ``NUMBERS``.
    :param result: OpenDP's name of the type it returns; one of ``NUMBERS``.
    """
    userdata = (function, ATOM_MAP[carrier], ATOM_MAP[result], result.encode())
    callback = CallbackFn(_dispatch, ExtrinsicObject(ctypes.py_object(userdata)))
    return ctypes.cast(ctypes.pointer(callback), CallbackFnPtr)
