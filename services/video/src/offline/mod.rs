//! Films on an area that nobody serves: [put in](adding), [listed](listing), [taken out](removing) and [checked](checking). There is no
//! network and no runtime; whoever asks waits for the disk.

pub mod adding;
pub mod checking;
pub mod listing;
pub mod removing;
mod session;

pub use session::{OfflineError, Session};
