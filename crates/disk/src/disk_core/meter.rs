//! [`Meters`]: what a tenant's requests are counted by. Tenants of one area share the area's limits, and those of one account its ceiling.

use super::rate::Rates;
use crate::area::AreaLimits;
use qanat_nic::Time;
use std::cell::Cell;
use std::rc::Rc;

/// Whose limits they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Payer {
    /// All who have this area open.
    Area(u64),
    /// All areas that this account has open.
    Account(u32),
}

/// Limits that several tenants share, one request of each after the other.
#[derive(Debug, Default)]
struct Meter {
    rates: Cell<Rates>,
    /// Whose the last request was.
    last: Cell<u64>,
    /// Somebody else has been refused one since.
    is_wanted: Cell<bool>,
}

type Shared = Rc<Meter>;

impl Meter {
    fn set(&self, limits: AreaLimits) {
        let mut rates = self.rates.get();
        rates.set(limits);
        self.rates.set(rates);
    }

    /// The rates after a request of so many bytes of `tenant`'s.
    #[inline]
    fn after(&self, tenant: u64, bytes: u64, now: Time) -> Result<Rates, Time> {
        let mut rates = self.rates.get();
        if !rates.is_limited() {
            return Ok(rates);
        }
        let is_last = self.last.get() == tenant;
        if let Err(due) = rates.take(bytes, now) {
            if !is_last {
                self.is_wanted.set(true);
            }
            return Err(due);
        }
        // There is room. The tenant that had the last one leaves this to another, if another still wants it.
        if is_last && self.is_wanted.take() { Err(now) } else { Ok(rates) }
    }

    fn charge(&self, tenant: u64, rates: Rates) {
        if self.last.replace(tenant) != tenant {
            self.is_wanted.set(false);
        }
        self.rates.set(rates);
    }
}

/// Those of one tenant.
#[derive(Clone, Debug)]
pub(super) struct Meters {
    tenant: u64,
    area: Shared,
    account: Shared,
}

impl Meters {
    /// Other limits of the area from now on.
    pub(super) fn limit_area(&self, limits: AreaLimits) {
        self.area.set(limits);
    }

    /// Whether another tenant's requests are counted with these.
    pub(super) fn shares_area(&self, other: &Meters) -> bool {
        Rc::ptr_eq(&self.area, &other.area)
    }

    /// Takes a request of so many bytes, if neither the area's limits nor the account's are used up.
    ///
    /// # Errors
    /// When there will be room.
    #[inline]
    pub(super) fn take(&self, bytes: u64, now: Time) -> Result<(), Time> {
        // Neither is charged for what the other refuses.
        let (area, account) = (self.area.after(self.tenant, bytes, now)?, self.account.after(self.tenant, bytes, now)?);
        self.area.charge(self.tenant, area);
        self.account.charge(self.tenant, account);
        Ok(())
    }
}

/// All there are. What somebody owes is not forgotten by closing an area and opening it again.
#[derive(Debug, Default)]
pub(super) struct MeterTable {
    all: Vec<(Payer, Shared)>,
    last_tenant: u64,
}

/// Meters of those who have nothing open any more, at most; those that owe least are forgotten first.
const IDLE_MAX: usize = 256;

impl MeterTable {
    /// What a tenant is to be counted by.
    pub(super) fn of(&mut self, (area, limits): (u64, AreaLimits), (account, ceiling): (u32, AreaLimits)) -> Meters {
        self.forget();
        let (area, account) = (self.get(Payer::Area(area)), self.get(Payer::Account(account)));
        area.set(limits);
        account.set(ceiling);
        self.last_tenant += 1;
        Meters { tenant: self.last_tenant, area, account }
    }

    fn get(&mut self, payer: Payer) -> Shared {
        if let Some((_, shared)) = self.all.iter().find(|(known, _)| *known == payer) {
            return Rc::clone(shared);
        }
        let shared = Shared::default();
        self.all.push((payer, Rc::clone(&shared)));
        shared
    }

    fn forget(&mut self) {
        let is_idle = |shared: &Shared| Rc::strong_count(shared) == 1;
        let idle = self.all.iter().filter(|(_, shared)| is_idle(shared)).count();
        if idle > IDLE_MAX {
            self.all.sort_by_key(|(_, shared)| std::cmp::Reverse(shared.rates.get().owes()));
            let mut kept = 0;
            self.all.retain(|(_, shared)| {
                kept += usize::from(is_idle(shared));
                !is_idle(shared) || kept <= IDLE_MAX / 2
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const FREE: AreaLimits = AreaLimits { requests_per_second: 0, bytes_per_second: 0 };

    fn requests(per_second: u64) -> AreaLimits {
        AreaLimits { requests_per_second: per_second, bytes_per_second: 0 }
    }

    /// Requests that pass in a second, of each in turn.
    fn in_a_second(all: &[&Meters], from: Time) -> Vec<u64> {
        let mut passed = vec![0; all.len()];
        for us in 0..1_000_000 {
            let index = us as usize % all.len();
            passed[index] += u64::from(all[index].take(512, from + Duration::from_micros(us)).is_ok());
        }
        passed
    }

    #[test]
    fn areas_of_one_account_share_its_ceiling_and_handles_of_one_area_its_limits() {
        let mut table = MeterTable::default();
        let first = table.of((1, FREE), (7, requests(1_000)));
        let second = table.of((2, FREE), (7, requests(1_000)));
        let other = table.of((3, FREE), (8, requests(1_000)));
        let start = Time::ZERO + Duration::from_secs(5);
        let passed = in_a_second(&[&first, &second, &other], start);
        assert!((1_000..=1_011).contains(&(passed[0] + passed[1])), "{passed:?}");
        assert!((1_000..=1_011).contains(&passed[2]), "{passed:?}");
        let again = table.of((3, requests(100)), (8, requests(1_000)));
        assert!(again.shares_area(&other) && !again.shares_area(&first));
        let passed = in_a_second(&[&again, &other], start + Duration::from_secs(3));
        assert!((100..=102).contains(&(passed[0] + passed[1])), "{passed:?}");
    }

    #[test]
    fn who_closes_and_opens_again_owes_what_he_owed() {
        let mut table = MeterTable::default();
        let now = Time::ZERO + Duration::from_secs(5);
        for area in 0..2_000 {
            let meters = table.of((area % 50, FREE), (7, requests(1)));
            assert_eq!(meters.take(512, now).is_ok(), area == 0, "{area}");
        }
        assert!(table.all.len() <= 51);
        (0..2_000).for_each(|area| drop(table.of((area, FREE), (area as u32 + 100, FREE))));
        assert!(table.all.len() <= IDLE_MAX + 2, "{}", table.all.len());
        assert!(table.of((0, FREE), (7, requests(1))).take(512, now).is_err());
    }
}
