"""Numbers with units, as rules write them and as reports show them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thpdiag.engine.quantity import format_bound, format_quantity, parse_quantity

STABLE = settings(derandomize=True, deadline=None, database=None, max_examples=200)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("30 %", 0.3), ("30%", 0.3), ("0.5", 0.5), ("-3", -3), ("+3", 3), ("2 /s", 2), ("60 /min", 1), ("3600 /h", 1),
        ("30 s", 30), ("1 min", 60),
        ("2 h", 7200), ("1 d", 86400), ("250 ms", 0.25), ("64 KiB", 65536), ("1 GiB", 2**30), ("2 TiB", 2**41),
        ("5 MiB/s", 5 * 2**20),
        ("6 MiB/h", 6 * 2**20 / 3600), ("3 samples", 3), (" 7 ", 7), (7, 7), (0.25, 0.25), ("512 pages", 512),
        ("1000 B", 1000),
    ],
)  # fmt: skip
def test_a_quantity_in_base_units(text: str | float, value: float) -> None:
    """Ratios, seconds, bytes, per second."""
    assert parse_quantity(text) == pytest.approx(value)


@pytest.mark.parametrize(
    "text",
    ["", "%", "30 percent", "1e3", "30 MB", "1,5 s", "s", "30 s 5", "nan", "inf", "0x10", "1.", ".5", "--3", "３"],
)
def test_what_is_no_quantity(text: str) -> None:
    """Misspelt units are an error that names the ones there are."""
    with pytest.raises(ValueError, match="is not a quantity"):
        parse_quantity(text)


@STABLE
@given(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from(["", "1", "ratio", "bytes", "bytes/s", "seconds", "1/s", "pages", "blocks"]),
)
def test_every_number_can_be_shown(value: float, unit: str) -> None:
    """No exception, no `nan`, no `inf`, on one short line."""
    text = format_quantity(value, unit)
    assert "nan" not in text
    assert "inf" not in text
    assert "\n" not in text
    assert len(text) < 40
    assert math.isfinite(value) or text == "unbounded"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.123, "ratio", "12.3 %"), (1.0, "ratio", "100 %"), (0.9958, "ratio", "99.6 %"),
        (0.0004, "ratio", "0.04 %"), (1e-7, "ratio", "less than 0.01 %"), (0.0, "ratio", "0.0 %"),
        (2**30, "bytes", "1.0 GiB"), (1500, "bytes", "1.5 KiB"),
        (0, "bytes", "0 B"),
        (3 * 2**20, "bytes/s", "3.0 MiB/s"), (5, "seconds", "5 s"), (90, "seconds", "90 s"), (7200, "seconds",
        "2.0 h"), (864000, "seconds", "10 days"),
        (1234567, "1", "1,234,567"), (0.5, "1/s", "0.5/s"), (512, "pages", "512 pages"), (-2048, "bytes", "-2.0 KiB"),
        (12.34, "", "12.3"), (18159206.0 * 2**20, "bytes", "17.3 TiB"), (1515192.3, "1/s", "1.52 million/s"),
        (107205210, "1/s", "107 million/s"), (68790542.2, "1/s", "68.8 million/s"), (1515.4, "1/s", "1,515/s"),
        (264.1, "1/s", "264.1/s"), (9999999, "1", "9,999,999"), (18070386, "1", "18.1 million"),
        (2.5e9, "1/s", "2.50 billion/s"), (-12345678, "pages", "-12.3 million pages"), (9999.7, "", "10,000"),
    ],
)  # fmt: skip
def test_a_number_as_people_read_it(value: float, unit: str, text: str) -> None:
    """Units of the vocabulary."""
    assert format_quantity(value, unit) == text


@pytest.mark.parametrize(
    ("written", "said"), [("51200 /s", "51,200/s"), ("0.4 /s", "0.4/s"), ("10 MiB/s", "10 MiB/s"), (0.05, "0.05")]
)
def test_a_bound_is_written_like_the_figures_beside_it(written: str | float, said: str) -> None:
    """Thousands are parted, and a rate has no space before its unit, as in `51,200/s`."""
    assert format_bound(written) == said
