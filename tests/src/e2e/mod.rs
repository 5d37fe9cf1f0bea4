//! System tests: the real command, real programs, a network namespace of their own.
//!
//! ```no_run
//! # use qanat_tests::e2e::{Server, Program, scenario};
//! scenario(|| {
//!     let server = Server::start(&["site"]);
//!     Program::new("curl").arguments(["-sS", &server.url("/")]).succeeds();
//!     assert!(server.stop().leaks().is_empty());
//! });
//! ```

mod browser;
mod guide;
mod house;
mod http;
mod pages;
mod patience;
mod place;
mod program;
mod relay;
mod scenario;
mod server;
mod signed;
mod unit;
mod wire;

pub use browser::chromium;
pub use guide::Reader;
pub use house::{House, connect, echoes, has_ended, net_core_at, process};
pub use http::{Answer, Client};
pub use pages::Pages;
pub use patience::{PATIENCE, eventually};
pub use place::{Place, has_address};
pub use program::{
    NOBODY, Outcome, Program, Running, directory_for_anybody, native_library, qanat, qanat_for_anybody, resident_kib,
    unfolded, workspace,
};
pub use relay::Relay;
pub use scenario::{is_root, scenario, scenario_on};
pub use server::{Server, Stopped};
pub use signed::Signed;
pub use unit::Unit;
pub use wire::{Wire, links};
