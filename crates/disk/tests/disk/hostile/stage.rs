//! A neighbour and an attacker on one disk core, and what must hold whatever the attacker does.

use super::attacker::Attacker;
use crate::disk_core::rig::{House, Tenant, first_area, second_area};
use qanat_disk::area::AreaLimits;
use qanat_disk::disk_core::Closing;
use qanat_disk::nvme::spec::{Command, Status};
use qanat_disk::{SimConfig, Vsic};
use qanat_disk_suite::read;

/// Turns within which each of the neighbour's requests ends.
const TURNS_MAX: usize = 4;

/// What becomes of the attacker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It goes on, as if nothing had been.
    Served,
    /// It is cut off.
    CutOff,
}

pub struct Stage {
    pub house: House,
    pub attacker: Attacker,
    neighbour: Tenant,
    round: u8,
}

impl Stage {
    /// Both are there, and both have written and read: the control.
    pub fn new(row: &str) -> Stage {
        Stage::limited(row, AreaLimits::default())
    }

    pub fn limited(row: &str, limits: AreaLimits) -> Stage {
        let house = House::new(SimConfig { depth: 32, ..SimConfig::default() });
        let mut neighbour = house.honest(1, first_area(), AreaLimits::default());
        for unit in 0..64 {
            neighbour.write_and_read(TURNS_MAX, 8 * unit, 4_096, unit as u8).unwrap();
        }
        let mut attacker = Attacker::new(&house, house.give(2, second_area(), limits));
        attacker.bring_up();
        attacker.set_bytes(attacker.frames_at, &[0x77; 512]);
        let (write, read) = (attacker.write(), attacker.read());
        assert!(attacker.io(write).is_success(), "{row}: the control writes");
        attacker.set_bytes(attacker.frames_at, &[0; 512]);
        assert!(attacker.io(read).is_success(), "{row}: the control reads");
        assert_eq!(attacker.bytes(attacker.frames_at, 512), [0x77; 512], "{row}: the control's bytes");
        // The core hears of the last completion that was taken.
        house.turn();
        Stage { house, attacker, neighbour, round: 0 }
    }

    /// The neighbour writes and reads some, each within a few turns.
    pub fn neighbour_works(&mut self, row: &str) {
        for step in 0..6 {
            self.round = self.round.wrapping_add(1);
            let outcome = self.neighbour.write_and_read(TURNS_MAX, 8 * step, 4_096, self.round);
            assert_eq!(outcome, Ok(()), "{row}: the neighbour's");
        }
    }

    /// Nothing that is not the attacker's has changed, and the attacker's fate is this.
    pub fn settle(mut self, row: &str, fate: Fate) {
        self.neighbour_works(row);
        let closed = self.house.closed();
        match fate {
            Fate::Served => {
                assert_eq!(closed, None, "{row}: it is not cut off");
                let command = self.attacker.read();
                assert!(self.attacker.io(command).is_success(), "{row}: it is served");
            }
            Fate::CutOff => {
                let closed = closed.unwrap_or_else(|| panic!("{row}: it is cut off"));
                assert!(closed.tenant == 2 && matches!(closed.why, Closing::Offence(_)), "{row}: {closed:?}");
                assert_eq!(self.attacker.register(0x1c), u32::MAX, "{row}: its controller is no more");
                assert!(crate::disk_core::rig::is_closed(&self.attacker.lease), "{row}: its lease is over");
                assert_eq!(self.house.core.borrow().statistics().count(), 1, "{row}");
            }
        }
        self.neighbour_works(row);
        let pool = self.neighbour.pool.clone();
        for unit in 6..64 {
            let frame = read(&mut self.neighbour, &pool, 8 * unit, 4_096).unwrap();
            assert!(frame.bytes().iter().all(|byte| *byte == unit as u8), "{row}: the neighbour's unit {unit}");
        }
        assert!(self.house.is_untouched_but(&[first_area(), second_area()].concat()), "{row}: the rest of the disk");
        assert_eq!((pool.in_use_count(), self.neighbour.in_flight()), (0, 0), "{row}");
    }
}

/// A row of an I/O command: its name, the command, how it ends.
type CommandRow<'a> = (&'a str, fn(&mut Attacker) -> Command, Status);
/// A row of an attack.
type AttackRow<'a> = (&'a str, fn(&mut Stage));

/// Rows of I/O commands, each of which ends with a status.
pub fn refused(rows: &[CommandRow<'_>]) {
    for (row, command, status) in rows {
        let mut stage = Stage::new(row);
        let command = command(&mut stage.attacker);
        assert_eq!(stage.attacker.io(command), *status, "{row}");
        stage.settle(row, Fate::Served);
    }
}

/// Rows of attacks with one fate.
pub fn attacks(fate: Fate, rows: &[AttackRow<'_>]) {
    for (row, attack) in rows {
        let mut stage = Stage::new(row);
        attack(&mut stage);
        stage.house.turns(3);
        stage.settle(row, fate);
    }
}
