//! Peers in turn: A B C A B C …, so that whatever drifts drifts over all of them. A run during which the processors'
//! distance changed class is repeated.

use super::HarnessError;
use super::cpu::{self, Placement};
use super::statistics::Summary;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display};

/// Times a run is made again because the placement changed under it.
pub const REPEATS_MAX: usize = 2;

/// One run and the conditions it was made under.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run<R> {
    /// What it measured.
    pub result: R,
    /// The processors' distance, if it was the same before and after.
    pub placement: Option<Placement>,
    /// Round trips measured before and after, ns.
    pub round_trip_ns: (f64, f64),
    /// Times it was made again because the placement changed under it.
    pub repeats: usize,
}

/// Under which placements the runs of a table were made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PlacementTally {
    near: usize,
    far: usize,
    moved: usize,
    repeats: usize,
}

impl PlacementTally {
    /// Adds the runs of a case.
    pub fn add<R>(&mut self, peers: &[Vec<Run<R>>]) {
        for run in peers.iter().flatten() {
            self.repeats += run.repeats;
            *match run.placement {
                Some(Placement::Near) => &mut self.near,
                Some(Placement::Far) => &mut self.far,
                None => &mut self.moved,
            } += 1;
        }
    }
}

impl fmt::Display for PlacementTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PlacementTally { near, far, moved, repeats } = self;
        write!(f, "of {} runs {near} near, {far} far", near + far + moved)?;
        if *moved > 0 {
            write!(f, ", {moved} with processors that kept moving")?;
        }
        write!(f, "; {repeats} made again because the processors moved")
    }
}

/// The cases of a table, one after the other. The peers of each case take turns.
pub struct Turns<'a> {
    cpus: (usize, usize),
    repetitions: usize,
    progress: &'a mut dyn FnMut(&str),
    tally: PlacementTally,
}

impl<'a> Turns<'a> {
    /// `cpus`: the processors whose distance is measured before and after each run. `progress` is told what is being done.
    pub fn new(cpus: (usize, usize), repetitions: usize, progress: &'a mut dyn FnMut(&str)) -> Turns<'a> {
        Turns { cpus, repetitions, progress, tally: PlacementTally::default() }
    }

    /// The runs of each of `peers` in a case. `name` names a peer, and `run` makes a run of it.
    ///
    /// # Errors
    /// The first of a run. That of a child says in which case and with which peer.
    pub fn play<P, N: Display, R>(
        &mut self,
        case: impl Display,
        peers: &[P],
        name: impl Fn(&P) -> N,
        mut run: impl FnMut(&P) -> Result<R, HarnessError>,
    ) -> Result<Vec<Vec<Run<R>>>, HarnessError> {
        let (one, other) = self.cpus;
        let mut probe = || cpu::round_trip_ns(one, other);
        let mut measure = |number: usize, _: usize| {
            let peer = peers.get(number).ok_or_else(|| HarnessError::Option("no such peer".to_owned()))?;
            (self.progress)(&format!("{case}: {}", name(peer)));
            run(peer).map_err(|error| match error {
                HarnessError::Child(message) => HarnessError::Child(format!("{case}, {}: {message}", name(peer))),
                other => other,
            })
        };
        let runs = alternate(peers.len(), self.repetitions, &mut probe, &mut measure)?;
        self.tally.add(&runs);
        Ok(runs)
    }

    /// Under which placements all runs were made.
    pub fn placement(&self) -> String {
        self.tally.to_string()
    }
}

/// Runs `peers` in turn `repetitions` times. `probe` measures the processors' round trip; `run` makes a run of the peer
/// whose number it is given; its second argument is the repetition, from 0. Returns the runs of each peer.
///
/// # Errors
/// The first of `probe` or `run`.
pub fn alternate<R, E>(
    peers: usize,
    repetitions: usize,
    probe: &mut dyn FnMut() -> Result<f64, E>,
    run: &mut dyn FnMut(usize, usize) -> Result<R, E>,
) -> Result<Vec<Vec<Run<R>>>, E> {
    let mut runs: Vec<Vec<Run<R>>> = (0..peers).map(|_| Vec::with_capacity(repetitions)).collect();
    for repetition in 0..repetitions {
        for (peer, runs) in runs.iter_mut().enumerate() {
            runs.push(steady_run((peer, repetition), probe, run)?);
        }
    }
    Ok(runs)
}

fn steady_run<R, E>(
    (peer, repetition): (usize, usize),
    probe: &mut dyn FnMut() -> Result<f64, E>,
    run: &mut dyn FnMut(usize, usize) -> Result<R, E>,
) -> Result<Run<R>, E> {
    let mut repeats = 0;
    loop {
        let before = probe()?;
        let result = run(peer, repetition)?;
        let after = probe()?;
        let steady = Placement::of(before) == Placement::of(after);
        if steady || repeats == REPEATS_MAX {
            let placement = steady.then(|| Placement::of(before));
            return Ok(Run { result, placement, round_trip_ns: (before, after), repeats });
        }
        repeats += 1;
    }
}

/// The class in which the peers can be compared best: that in which the peer with fewest runs has most. `None` if no
/// class has a run of every peer: then only all runs together can be compared, and that must be said.
pub fn common_placement<R>(peers: &[Vec<Run<R>>]) -> Option<Placement> {
    let fewest = |class: Placement| {
        peers.iter().map(|runs| runs.iter().filter(|run| run.placement == Some(class)).count()).min().unwrap_or(0)
    };
    let (near, far) = (fewest(Placement::Near), fewest(Placement::Far));
    match (near, far) {
        (0, 0) => None,
        (near, far) if near >= far => Some(Placement::Near),
        _ => Some(Placement::Far),
    }
}

/// Summarises `value` over the runs made in `placement` (`None`: over all).
pub fn summarize<R>(
    runs: &[Run<R>],
    placement: Option<Placement>,
    value: impl Fn(&R) -> Option<f64>,
) -> Option<Summary> {
    let comparable = runs.iter().filter(|run| placement.is_none() || run.placement == placement);
    Summary::of(comparable.filter_map(|run| value(&run.result)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_take_turns() {
        let mut order = Vec::new();
        let runs = alternate::<usize, ()>(2, 3, &mut || Ok(55.0), &mut |peer, _| {
            order.push(peer);
            Ok(peer * 10)
        });
        let runs = runs.unwrap();
        assert_eq!(order, [0, 1, 0, 1, 0, 1]);
        assert!(runs[1].iter().all(|run| run.result == 10 && run.placement == Some(Placement::Near)));
    }

    #[test]
    fn a_moved_run_is_repeated_at_most_twice() {
        // Before, after, before, after: the first run moves, the second doesn't.
        let mut distances = vec![55.0, 360.0, 360.0, 361.0].into_iter();
        let mut made = 0;
        let runs = alternate::<(), ()>(1, 1, &mut || Ok(distances.next().unwrap()), &mut |_, _| {
            made += 1;
            Ok(())
        });
        assert_eq!((made, runs.unwrap()[0][0].placement), (2, Some(Placement::Far)));
        let mut near = false;
        let mut made = 0;
        let mut probe = || {
            near = !near;
            Ok(if near { 55.0 } else { 360.0 })
        };
        let runs = alternate::<(), ()>(1, 1, &mut probe, &mut |_, _| {
            made += 1;
            Ok(())
        });
        assert_eq!((made, runs.unwrap()[0][0].placement), (1 + REPEATS_MAX, None));
    }

    #[test]
    fn only_like_is_compared_with_like() {
        let run = |placement, result| Run { result, placement, round_trip_ns: (0.0, 0.0), repeats: 1 };
        let (near, far) = (Some(Placement::Near), Some(Placement::Far));
        let a = vec![run(near, 1.0), run(far, 10.0), run(far, 12.0)];
        let b = vec![run(far, 20.0), run(far, 22.0), run(None, 99.0)];
        let peers = [a, b];
        assert_eq!(common_placement(&peers), far);
        assert_eq!(summarize(&peers[0], far, |value| Some(*value)).unwrap().median, 11.0);
        assert_eq!(summarize(&peers[1], None, |value| Some(*value)).unwrap().count, 3);
        assert_eq!(common_placement(&[vec![run(near, 0.0)], vec![run(far, 0.0)]]), None);
        let mut tally = PlacementTally::default();
        tally.add(&peers);
        let text = tally.to_string();
        assert!(text.starts_with("of 6 runs 1 near, 4 far, 1 with") && text.contains("; 6 made again"), "{text}");
    }

    #[test]
    fn errors_end_it() {
        let result =
            alternate::<(), &str>(2, 2, &mut || Ok(1.0), &mut |peer, _| if peer == 1 { Err("b") } else { Ok(()) });
        assert_eq!(result.unwrap_err(), "b");
    }
}
