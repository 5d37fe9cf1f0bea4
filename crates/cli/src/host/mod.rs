//! What every service is run by.

pub mod addresses;
pub mod app_cores;
pub mod attach;
pub mod card;
pub mod net_core;
pub mod net_core_watch;
pub mod own_net_core;
pub mod placement;
pub mod privilege;
pub mod report;
