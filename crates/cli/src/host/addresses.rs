//! Own addresses as they come and go: found, verified, or another's.

use crate::live::Printer;
use qanat::{AddressState, Runtime};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Tells of changes of addresses.
pub struct AddressWatch {
    known: BTreeMap<IpAddr, AddressState>,
}

impl AddressWatch {
    /// `given`: addresses announced already.
    pub fn new(given: &[IpAddr]) -> AddressWatch {
        AddressWatch { known: given.iter().map(|address| (*address, AddressState::Usable)).collect() }
    }

    /// Tells what is new since the last call.
    pub fn show(&mut self, printer: &Printer, runtime: &Runtime) {
        let now: BTreeMap<IpAddr, AddressState> =
            runtime.stack().addresses().map(|(address, _, state)| (address, state)).collect();
        for (address, state) in &now {
            // On trial: nothing to tell until it is decided.
            let decided = !matches!(state, AddressState::Tentative | AddressState::Optimistic);
            if decided && self.known.insert(*address, *state) != Some(*state) {
                tell(printer, *address, *state);
            }
        }
        let gone: Vec<IpAddr> = self.known.keys().filter(|address| !now.contains_key(*address)).copied().collect();
        for address in gone {
            self.known.remove(&address);
            if printer.is_json() {
                let line = serde_json::json!({ "event": "address", "address": address, "state": "gone" });
                printer.lasting(line.to_string());
            } else {
                printer.lasting(format!("No longer at {address}: its lifetime is over, or somebody else has it"));
            }
        }
    }
}

fn tell(printer: &Printer, address: IpAddr, state: AddressState) {
    let is_duplicate = state == AddressState::Duplicate;
    if printer.is_json() {
        let state = if is_duplicate { "duplicate" } else { "usable" };
        let line = serde_json::json!({ "event": "address", "address": address, "state": state });
        printer.lasting(line.to_string());
    } else if is_duplicate {
        printer.lasting(format!("{address} is somebody else's (RFC 4862): not used; give another one"));
    } else {
        printer.lasting(format!("Also at {address}"));
    }
}

/// In one line.
pub fn names(addresses: &[IpAddr]) -> String {
    let names: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    names.join(" ")
}
