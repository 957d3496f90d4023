//! Lists without a trip: empty, with the exit code of any other list.

use super::{check, typed};

#[test]
fn times_without_trips() {
    let around = "days with trips around: 2024-05-01";
    check(&[
        typed(
            "trips truck-17 --day 2024-05-02",
            0,
            ["no trip of device `truck-17`", "2024-05-02", around],
        ),
        typed(
            "trips truck-17 --day 2024-04-30",
            0,
            ["no trip of device `truck-17`", "2024-04-30", around],
        ),
        typed("trips --day 2024-05-02", 0, ["no trip touches", "2024-05-02 (UTC)", around]),
        typed(
            "trips truck-17 --prefix 202301",
            0,
            ["no trip of device", "has an id of 202301", around],
        ),
        typed("trips truck-17 --from 2025-01-01T00:00:00Z", 0, ["no trip", "these times", around]),
        typed("trips truck-18 --day 2024-05-01", 1, ["no device", "`truck-18`", "tstar devices"]),
    ]);
}
