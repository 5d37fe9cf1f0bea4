//! The layer between a stack that remembers and a service, with rustls as the client.

mod bench;
mod configuration;
mod exchange;
mod hostile;
