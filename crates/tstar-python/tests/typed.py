"""Uses that a type checker accepts, and marked ones that it refuses."""

from datetime import timedelta

import tstar

result: tstar.Trips = tstar.trips(object(), device="vehicle", max_gap=timedelta(minutes=5))
trips: tstar.Table = result.trips
tstar.trips(object(), min_stop=None, order_by=["at", "n"], errors="raise")
tstar.trips(object(), max_gaps="5m")  # type: ignore[call-arg]
tstar.trips(object(), errors="ignore")  # type: ignore[arg-type]
timeline = tstar.Timeline(max_gap="5m", rules=None)
effect: str = timeline.add("van", "2026-11-20T20:00:00Z", 52.5, 13.4, speed=8.0)
parsed: tstar.id.TripId = tstar.id.parse("truck-17~20261120T213800.123Z")
