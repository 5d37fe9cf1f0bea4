//! A line at the program's end that says where the time of its packets went, for `qanat bench breakdown`.

use qanat_nic::breakdown;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

extern "C" fn at_end() {
    let Some(counted) = breakdown::report().filter(|_| crate::sys::wishes::wishes().is_some()) else { return };
    let phases: Vec<String> =
        counted.phases_ns.iter().map(|(phase, ns)| format!("\"{}\":{ns:.0}", phase.name())).collect();
    println!("{{\"breakdown\":{{\"turns\":{},\"phases_ns\":{{{}}}}}}}", counted.turns, phases.join(","));
}
