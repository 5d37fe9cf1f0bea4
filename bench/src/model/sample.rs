//! One run of the application, and the small benchmarks of what the model is fed with.

use super::records::{Application, DiskReader, Reader, Source, work};
use crate::harness::HarnessError;
use crate::harness::cpu;
use crate::split::scene::{Place, Scene, Wire};
use qanat::{Config, Crossing, Runtime, RuntimeOptions, SpinPolicy, StopHandle, StorageArea};
use qanat_disk::{DiskOptions, Uring, Vsic};
use qanat_nic::{MemoryPlan, PairConfig, Region, null_call, pair};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{Duration, Instant};

const APPLICATION_CPU: usize = 1;
/// Turns between looks at the clock.
const TURNS: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

/// Where records come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    Memif,
    Veth,
    Disk,
}

/// What is read, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub link: Link,
    /// Of a record.
    pub bytes: usize,
    /// Records under way.
    pub depth: u32,
    pub work_steps: u64,
    pub crosses: bool,
    /// The application sleeps when there is nothing to do, else it looks again.
    pub sleeps: bool,
}

/// What a run gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// At least one.
    pub records: u64,
    pub records_per_s: f64,
    /// The application slept.
    pub sleeps: bool,
    /// Of the application's processor for a record: of turns in which something happened; if it sleeps, all that its thread took.
    pub host_ns: f64,
    /// Of the other host's for a record; of a disk, from one record to the next.
    pub gap_ns: f64,
    pub calls: f64,
    /// One way into the kernel and back, just after the run.
    pub call_ns: f64,
}

impl Sample {
    /// Records a second. If the application sleeps, its processor is never full, so those of a processor that was.
    pub(super) fn full_per_s(&self) -> f64 {
        if self.sleeps { 1e9 / self.host_ns } else { self.records_per_s }
    }
}

/// A run. It pins the thread that calls it.
pub(super) fn sample(reading: &Reading, disk: Option<&Path>, duration: Duration) -> Result<Sample, HarnessError> {
    let Reading { bytes, depth, work_steps, .. } = *reading;
    let wire = match reading.link {
        Link::Memif => Wire::Memif,
        Link::Veth => Wire::Veth,
        Link::Disk => return sample_disk(reading, disk, duration),
    };
    let mut scene = Scene::new(Place::Linked, wire, true, move || Ok(Source::new(bytes)))?;
    let mut reader = Reader::new(wire.server(), bytes, depth, work_steps);
    warm_up(&mut scene.client, &mut reader, reading, duration / 4)?;
    let before = scene.work()?.net_ns;
    let mut sample = run(&mut scene.client, &mut reader, reading, duration)?;
    sample.gap_ns = (scene.work()?.net_ns - before) as f64 / sample.records as f64;
    Ok(sample)
}

/// From a file past the page cache, by our driver. The application's network is a wire that nobody is at the other end of.
fn sample_disk(reading: &Reading, disk: Option<&Path>, duration: Duration) -> Result<Sample, HarnessError> {
    let refused = |error: &dyn std::fmt::Display| HarnessError::Option(error.to_string());
    let path = disk.ok_or_else(|| refused(&"no disk"))?;
    cpu::pin(APPLICATION_CPU)?;
    let region = Region::new(reading.depth.next_power_of_two(), reading.bytes.next_power_of_two().max(4_096) as u32);
    let region = region.map_err(|error| HarnessError::system("map the buffers", error))?;
    let pool = region.pool(reading.depth).ok_or_else(|| refused(&"no buffers"))?;
    let options = DiskOptions { depth: reading.depth, ..DiskOptions::default() };
    let disk = Uring::open(path, options, &[region]).map_err(|error| refused(&error))?;
    let places = disk.geometry().bytes() / reading.bytes as u64;
    let (port, _other) = pair(PairConfig::default()).map_err(|error| HarnessError::system("make a wire", error))?;
    let wire = port.open(MemoryPlan::default()).map_err(|error| HarnessError::system("map frames", error))?;
    let config = Config::new(IpAddr::V4(Ipv4Addr::new(10, 9, 0, 1)), 24);
    let mut runtime = Runtime::new(Box::new(wire), config, [7; 32]);
    let area = runtime.add_area(StorageArea::new(Box::new(disk), pool));
    let mut reader = DiskReader::new(area, reading.bytes, reading.depth, places.max(1), reading.work_steps);
    warm_up(&mut runtime, &mut reader, reading, duration / 4)?;
    let sample = run(&mut runtime, &mut reader, reading, duration)?;
    // What is under way is waited for.
    drop(runtime.take_storage());
    Ok(Sample { gap_ns: 1e9 / sample.records_per_s.max(1.0), ..sample })
}

/// It starts. Until records come, and then for a while.
fn warm_up<A: Application>(
    runtime: &mut Runtime,
    application: &mut A,
    reading: &Reading,
    duration: Duration,
) -> Result<(), HarnessError> {
    runtime.start(application).map_err(|error| HarnessError::Child(error.to_string()))?;
    let began = Instant::now();
    while application.tally().records == 0 {
        for _ in 0..TURNS {
            runtime.turn(application);
        }
        if application.has_failed() || began.elapsed() > PATIENCE {
            return Err(HarnessError::Child("no record comes".to_owned()));
        }
    }
    polling(runtime, application, reading.crosses, duration);
    Ok(())
}

/// For so long, however it waits and whether it crosses.
fn run<A: Application>(
    runtime: &mut Runtime,
    application: &mut A,
    reading: &Reading,
    duration: Duration,
) -> Result<Sample, HarnessError> {
    let (before, began) = (application.tally(), Instant::now());
    let host = match reading.sleeps {
        true => sleeping(runtime, application, reading.crosses, duration)?,
        false => polling(runtime, application, reading.crosses, duration),
    };
    let (elapsed, after) = (began.elapsed(), application.tally());
    let records = after.records - before.records;
    if application.has_failed() || records == 0 {
        return Err(HarnessError::Child("records stopped coming".to_owned()));
    }
    let each = |whole: f64| whole / records as f64;
    Ok(Sample {
        records,
        records_per_s: records as f64 / elapsed.as_secs_f64(),
        sleeps: reading.sleeps,
        host_ns: each(host.as_nanos() as f64),
        gap_ns: 0.0,
        call_ns: least_ns(2_000, || null_call([1, 2, 3, 4])),
        calls: each((after.calls - before.calls) as f64),
    })
}

/// Time in turns in which something happened.
fn polling<A: Application>(runtime: &mut Runtime, application: &mut A, crosses: bool, duration: Duration) -> Duration {
    let (began, mut busy) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < duration {
        for _ in 0..TURNS {
            let begins = Instant::now();
            let is_busy = if crosses { runtime.turn(&mut Crossing(application)) } else { runtime.turn(application) };
            if is_busy {
                busy += begins.elapsed();
            }
        }
    }
    busy
}

/// Time that the thread took.
fn sleeping<A: Application>(
    runtime: &mut Runtime,
    application: &mut A,
    crosses: bool,
    duration: Duration,
) -> Result<Duration, HarnessError> {
    let system = |what: &'static str| move |error: io::Error| HarnessError::system(what, error);
    let stop = StopHandle::new().map_err(system("make a doorbell"))?;
    let options = RuntimeOptions { spin: SpinPolicy::Never, observe_every: duration / 8, ..RuntimeOptions::default() };
    let (began, before) = (Instant::now(), thread_time());
    let ends = || {
        if began.elapsed() >= duration {
            stop.request();
        }
    };
    let outcome = match crosses {
        true => runtime.run(&mut Crossing(application), &stop, options, &mut |_, _| ends()),
        false => runtime.run(application, &stop, options, &mut |_, _| ends()),
    };
    outcome.map_err(|error| HarnessError::Child(error.to_string()))?;
    Ok(thread_time() - before)
}

fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// The least of several runs of `each`, repeated so often, ns each.
fn least_ns(repetitions: u32, mut each: impl FnMut()) -> f64 {
    let run = |each: &mut dyn FnMut()| {
        let began = Instant::now();
        (0..repetitions).for_each(|_| each());
        began.elapsed().as_nanos() as f64 / f64::from(repetitions)
    };
    (0..10).map(|_| run(&mut each)).fold(f64::INFINITY, f64::min)
}

/// One step of an application's work.
pub(super) fn step_ns() -> f64 {
    least_ns(20, || work(10_000)) / 10_000.0
}
