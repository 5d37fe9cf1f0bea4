//! Tables with a bound: objects by handle, flows by address, deadlines, what is remembered of peers and paths. They know no
//! protocol.

pub(crate) mod answer_limit;
pub(crate) mod flow;
pub(crate) mod path_mtus;
pub(crate) mod peer;
pub(crate) mod slab;
pub(crate) mod wheel;
