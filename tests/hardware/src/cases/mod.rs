//! The cases, in the order in which they run: each leaves the machine as it found it.

mod bounds;
mod by_the_kernel;
mod card;
mod daemons_disk;
mod driver;
mod durable;
mod functions;
mod house;
mod kernels_view;
pub mod killed;
mod resets;
mod rig;
mod services;
mod without_kernel;

use crate::harness::Case;

/// All cases.
pub fn all() -> Vec<Case> {
    macro_rules! cases {
        ($($name:literal => $run:path,)*) => { vec![$(Case { name: $name, run: $run }),*] };
    }
    cases![
        "a function that a driver of the kernel's has is refused, with the remedy" => driver::of_the_kernels_is_refused,
        "a function of another kind is refused" => driver::of_another_kind_is_refused,
        "identify" => driver::identify,
        "requests that can't be done" => driver::refuses_what_cant_be_done,
        "random operations as the model says" => driver::random_operations,
        "random operations without shadow doorbells" => driver::random_operations_without_shadows,
        "an idle thread sleeps until the controller rings" => driver::sleeps_until_it_rings,
        "a second process is refused" => driver::a_second_process_is_refused,
        "the kernel reads what we wrote, and we read what it wrote" => kernels_view::both_ways,
        "the kernel's block device and commands passed through, by interrupts" => by_the_kernel::by_interrupts,
        "the kernel's block device and commands passed through, polled" => by_the_kernel::polled,
        "a namespace is one program's, whichever of its devices is opened" => by_the_kernel::whose_it_is,
        "a buffer outside of what was mapped is refused by the IOMMU" => bounds::a_buffer_outside_is_refused,
        "queues outside of what was mapped are refused by the IOMMU" => bounds::queues_outside_are_refused,
        "without bus mastering nothing reaches memory" => bounds::without_bus_mastering_nothing_arrives,
        "function reset under load" => resets::function_reset_under_load,
        "a controller that takes too long is reset, and goes on" => resets::an_overdue_controller_is_reset,
        "a process that is killed leaves a controller that starts again" => killed::starts_again,
        "a namespace on a virtual function" => functions::a_namespace_of_its_own,
        "ICMP, datagrams and streams between a network card's virtual function and the kernel" => card::echoes,
        "a virtual function has the address that the host gives it" => card::the_hosts_address_is_taken,
        "a virtual function that its host resets begins anew" => card::begins_anew_after_a_reset,
        "a virtual function goes on after its host's interface was down" => card::goes_on_after_the_host_was_down,
        "writes that say what was durable when they were made" => durable::writes_say_what_is_durable,
        "qanat echo on a virtual function" => services::echo,
        "qanat web on a virtual function, whose host goes down, and resets it" => services::web,
        "qanat echo-disk from disk to network without the kernel" => without_kernel::no_call_a_request,
        "a service on a virtual function that can't be had" => services::refusals,
        "the daemon's: a function as a disk, and virtual functions for services" => services::of_the_daemon,
    ]
}
