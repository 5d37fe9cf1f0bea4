//! Commands that run a service. A new one is a line in each of the two lists below, and a file with its options.

mod area;
mod cache;
mod congestion;
mod dashboard;
mod delay;
mod dns;
mod echo;
mod echo_disk;
mod hello;
mod https;
mod kv;
mod read_cache;
mod serving;
mod video;
mod web;

use clap::Subcommand;

/// The subcommands, from the modules of their names, in the order of the help.
macro_rules! services {
    ($($name:ident: $module:ident),*) => {
        /// One of the services.
        #[derive(Subcommand)]
        pub enum Service {
            $($name(Box<$module::Arguments>),)*
        }

        impl Service {
            /// Runs it until it is told to stop.
            pub fn run(&self) -> Result<(), String> {
                match self {
                    $(Service::$name(arguments) => $module::run(arguments),)*
                }
            }
        }
    };
}

services!(Hello: hello, Web: web, Video: video, Delay: delay, Dns: dns, Kv: kv, Cache: cache, Echo: echo, EchoDisk: echo_disk, Dashboard: dashboard);
