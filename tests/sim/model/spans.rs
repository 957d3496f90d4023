//! Trips by their definition, as long as no limit is reached: sort the set of kept times, cut it at
//! gaps. The id is the smallest seed; a seed is a time without a kept time within `max_gap` when it
//! arrived.

/// A trip, as far as it follows from times and their arrival order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: i64,
    pub end: i64,
    pub t_star: i64,
    /// The other seeds, ascending.
    pub absorbed: Vec<i64>,
}

/// The trips of `arrivals`, by start.
pub fn spans(arrivals: &[i64], max_gap: i64) -> Vec<Span> {
    let mut times = arrivals.to_vec();
    times.sort_unstable();
    times.dedup();
    let mut seeds = seeds(arrivals, max_gap);
    seeds.sort_unstable();
    times.chunk_by(|before, after| after - before <= max_gap).map(|run| span(run, &seeds)).collect()
}

fn span(run: &[i64], seeds: &[i64]) -> Span {
    let (start, end) = (run[0], run[run.len() - 1]);
    let mut own = seeds.iter().copied().filter(|&seed| start <= seed && seed <= end);
    let t_star = own.next().expect("the first of a trip to arrive had no neighbour");
    Span { start, end, t_star, absorbed: own.collect() }
}

fn seeds(arrivals: &[i64], max_gap: i64) -> Vec<i64> {
    let alone =
        |nth: &usize| arrivals[..*nth].iter().all(|&t| (t - arrivals[*nth]).abs() > max_gap);
    (0..arrivals.len()).filter(alone).map(|nth| arrivals[nth]).collect()
}
