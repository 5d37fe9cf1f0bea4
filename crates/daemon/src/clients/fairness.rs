//! Who is served next: users have equal shares of the loop's time. The time that serving a user takes is measured and charged to
//! that user, the end of the user's objects included. A user who had more than others that wait now waits until they have had as much.
//!
//! This is fair queueing by virtual time. Virtual time is that of the waiting user who had least. A user who comes after a while
//! begins there. So nobody saves up, and nobody pays for time that nobody else wanted.

use std::collections::HashMap;
use std::time::Duration;

/// A user may have so much more than others before the order of arrival no longer counts.
const ALLOWANCE: Duration = Duration::from_millis(5);
/// A turn ends after this. Clients that have come meanwhile are in the next.
pub(crate) const TURN: Duration = Duration::from_millis(5);
/// Users remembered; more, and those who are not ahead are forgotten.
const USERS_MAX: usize = 1_024;

/// Something that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    /// Whose; `None`: the daemon's own, which comes first.
    pub(crate) user: Option<u32>,
    /// What comes before what, as long as nobody has had too much.
    pub(crate) rank: u8,
    /// When it was served last, in turns: nobody's later ones wait for the earlier ones all the time.
    pub(crate) served: u64,
    /// Its number.
    pub(crate) token: u64,
}

/// What users have had.
#[derive(Default)]
pub(crate) struct Shares {
    /// In virtual time.
    had: HashMap<u32, Duration>,
    virtual_time: Duration,
}

impl Shares {
    /// Puts what is ready into the order in which it is to be served.
    pub(crate) fn order(&mut self, ready: &mut [Ready]) {
        let least = ready.iter().filter_map(|one| one.user).map(|user| self.place(user)).min();
        self.virtual_time = least.unwrap_or(self.virtual_time);
        ready.sort_by_cached_key(|one| {
            let ahead = one.user.map_or(Duration::ZERO, |user| self.place(user) - self.virtual_time);
            let ahead = if ahead > ALLOWANCE { ahead } else { Duration::ZERO };
            (one.user.is_some(), ahead, one.rank, one.served, one.token)
        });
    }

    /// A user has had some of the loop's time.
    pub(crate) fn charge(&mut self, user: u32, cost: Duration) {
        let place = self.place(user) + cost;
        self.had.insert(user, place);
        if self.had.len() > USERS_MAX {
            let now = self.virtual_time;
            self.had.retain(|_, had| *had > now);
        }
    }

    fn place(&self, user: u32) -> Duration {
        self.had.get(&user).copied().unwrap_or_default().max(self.virtual_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    fn ready(user: u32, rank: u8, token: u64) -> Ready {
        Ready { user: Some(user), rank, served: 0, token }
    }

    /// Serves turns as the loop does; `costs`: of each user's requests. Returns who was served, in order.
    fn serve(shares: &mut Shares, all: &[Ready], costs: impl Fn(u32) -> Duration, turns: usize) -> Vec<u32> {
        let mut served = Vec::new();
        for _ in 0..turns {
            let mut now = all.to_vec();
            shares.order(&mut now);
            let mut spent = Duration::ZERO;
            for one in now {
                let user = one.user.expect("a user");
                shares.charge(user, costs(user));
                served.push(user);
                spent += costs(user);
                if spent > TURN {
                    break;
                }
            }
        }
        served
    }

    #[test]
    fn in_quiet_times_rank_and_number_decide() {
        let mut shares = Shares::default();
        let own = Ready { user: None, rank: 9, served: 9, token: 9 };
        let mut all = [ready(1, 2, 5), ready(2, 1, 7), own, ready(1, 1, 8), ready(3, 2, 4)];
        shares.order(&mut all);
        assert_eq!(all.map(|one| one.token), [9, 7, 8, 4, 5]);
    }

    #[test]
    fn all_of_one_user_have_their_turn() {
        let (mut shares, mut served) = (Shares::default(), [0u64; 10]);
        let mut counts = [0; 10];
        for turn in 1..=100 {
            let mut all: Vec<Ready> =
                (0..10).map(|token| Ready { served: served[token as usize], ..ready(1, 1, token) }).collect();
            shares.order(&mut all);
            // What each asks takes a whole turn.
            let first = all[0].token as usize;
            (served[first], counts[first]) = (turn, counts[first] + 1);
            shares.charge(1, 2 * TURN);
        }
        assert_eq!(counts, [10; 10]);
    }

    #[test]
    fn one_request_waits_for_one_of_another_user_whatever_that_one_asks() {
        let mut shares = Shares::default();
        // The flood has a hundred connections, with smaller numbers, and what it asks takes 30 ms.
        let flood: Vec<Ready> = (0..100).map(|token| ready(1, 1, token)).collect();
        let cost = |user| if user == 1 { 30 * MILLISECOND } else { MILLISECOND / 10 };
        assert_eq!(serve(&mut shares, &flood, cost, 50), vec![1; 50]);
        let both: Vec<Ready> = flood.iter().copied().chain([ready(2, 2, 1_000)]).collect();
        let served = serve(&mut shares, &both, cost, 60);
        let waits = served.split(|user| *user == 2).map(<[u32]>::len).max();
        assert_eq!(waits, Some(1), "{served:?}");
    }

    #[test]
    fn those_who_ask_all_the_time_have_equal_time() {
        let mut shares = Shares::default();
        let all: Vec<Ready> =
            (0..40).map(|token| ready(1, 1, token)).chain([ready(2, 1, 50), ready(3, 2, 51)]).collect();
        let cost = |user: u32| MILLISECOND * [0, 1, 7, 20][user as usize];
        let served = serve(&mut shares, &all, cost, 4_000);
        let had = |user: u32| cost(user) * served.iter().filter(|other| **other == user).count() as u32;
        let (least, most) = ([1, 2, 3].map(had).into_iter().min(), [1, 2, 3].map(had).into_iter().max());
        assert!(most.unwrap() - least.unwrap() < 60 * MILLISECOND, "{least:?} to {most:?}");
    }

    #[test]
    fn nobody_saves_up_and_nobody_pays_for_what_nobody_else_wanted() {
        let mut shares = Shares::default();
        serve(&mut shares, &[ready(1, 1, 1)], |_| MILLISECOND, 1_000);
        // The other has had nothing for all that time: from now on each has the half.
        let served = serve(&mut shares, &[ready(1, 1, 1), ready(2, 1, 2)], |_| 10 * MILLISECOND, 100);
        let first = served.iter().filter(|user| **user == 1).count();
        assert!((45..=55).contains(&first), "{first} of {}", served.len());
        for user in 0..5_000 {
            shares.charge(user, MILLISECOND);
            let mut one = [ready(user, 1, 1)];
            shares.order(&mut one);
        }
        assert!(shares.had.len() <= USERS_MAX + 1, "who is not ahead is forgotten");
    }
}
