"""What a frame is, without importing the library that made it."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ._tstar import InputError


def _module(frame: Any) -> str | None:
    """The library that it is of, such as that of the class that a GeoDataFrame extends."""
    modules = (kind.__module__.partition(".")[0] for kind in type(frame).__mro__)
    return next((it for it in modules if it in ("pandas", "polars", "pyarrow")), None)


def names(frame: Any) -> list[str] | None:
    """The names of the columns; None if only reading the frame would show them."""
    if _module(frame) == "pyarrow":
        schema = getattr(frame, "schema", None)
        return None if schema is None else list(schema.names)
    if hasattr(frame, "collect_schema"):
        return list(frame.collect_schema().names())
    columns = getattr(frame, "columns", getattr(frame, "column_names", None))
    if columns is None and hasattr(frame, "__arrow_c_schema__") and "pyarrow" in sys.modules:
        return list(sys.modules["pyarrow"].schema(frame).names)
    return None if columns is None else [name for name in columns if isinstance(name, str)]


def select(frame: Any, columns: list[str]) -> Any:
    """An object with the Arrow C stream interface: the frame, with these columns if it can choose.

    Other columns may be of types that have no Arrow form.
    """
    module, known = _module(frame), names(frame)
    if known is not None:
        missing = [name for name in columns if name not in known]
        if missing:
            raise InputError(
                f"the frame has no column `{missing[0]}`; its columns are {', '.join(known)}: "
                "name the columns, as in device=, time=, lat=, lon="
            )
    if module == "pandas":
        return _of_pandas(frame, columns)
    if module == "polars":
        return _of_polars(frame, columns)
    if module == "pyarrow" and hasattr(frame, "select"):
        frame = frame.select(columns)
    if not hasattr(frame, "__arrow_c_stream__"):
        kind = type(frame).__name__
        raise InputError(
            f"a {kind} is not a frame with the Arrow C stream interface (__arrow_c_stream__); give "
            "a DataFrame of pandas or polars or a pyarrow Table, or make one, as in "
            "pandas.DataFrame(...)"
        )
    # Columns of what has null rows have values there, which are no samples.
    nulls = getattr(frame, "null_count", 0)
    if isinstance(nulls, int) and nulls > 0:
        raise InputError(
            f"the frame has {nulls} rows that are null as a whole; leave them out, as in "
            ".drop_null() of pyarrow"
        )
    return frame


def _of_pandas(frame: Any, columns: list[str]) -> Any:
    try:
        pyarrow: Any = importlib.import_module("pyarrow")
    except ImportError as error:
        raise ImportError(
            "pandas needs pyarrow to hand over its columns: pip install pyarrow"
        ) from error
    repeated = [name for name in columns if list(frame.columns).count(name) > 1]
    if repeated:
        raise InputError(f"the frame has several columns `{repeated[0]}`; rename them")
    arrays = []
    for name in columns:
        try:
            arrays.append(pyarrow.array(frame[name], from_pandas=True))
        except (pyarrow.ArrowException, TypeError, ValueError) as error:
            raise InputError(_mixed(frame[name], name, error)) from error
    return pyarrow.table(arrays, names=columns)


def _mixed(series: Any, name: str, error: Exception) -> str:
    """Which row of a column of objects is unlike those before it."""
    kinds: dict[type, int] = {}
    for row, value in enumerate(series):
        if value is None or value != value:
            continue
        kinds.setdefault(type(value), row)
        if len(kinds) > 1:
            first, second = list(kinds)[:2]
            return (
                f"column `{name}` has values of several types: {first.__name__} in row "
                f"{kinds[first]}, {second.__name__} ({value!r}) in row {row}; cast it, as in "
                ".astype(str)"
            )
    return f"column `{name}` has no Arrow form: {error}"


def _of_polars(frame: Any, columns: list[str]) -> Any:
    polars: Any = importlib.import_module("polars")
    if isinstance(frame, polars.LazyFrame):
        frame = frame.select(columns).collect()
    frame = frame.select(columns)
    # A column of the type Null has a buffer that Arrow does not expect. Integers may be anything.
    nulls = [name for name, kind in frame.schema.items() if kind == polars.Null]
    return frame.with_columns(polars.col(nulls).cast(polars.Int32)) if nulls else frame
