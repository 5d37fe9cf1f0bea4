//! System tests of the `qanat` command: real clients, hostile peers, leftovers. As root, over veth, each in a network
//! namespace of its own: `make test-system`.
#![forbid(unsafe_code)]

mod browser;
mod columns;
mod conflicts;
mod curl;
mod dashboard;
mod descriptors;
mod devices;
mod ethernet;
mod hostile;
mod http2;
mod https;
mod lifecycle;
mod links;
mod load;
mod logs;
mod memory_limits;
mod privilege;
mod remedies;
mod returns;
mod rules;
mod statistics;
mod terminals;
