//! An application with all that it is run with, whatever the placement.

use crate::host::application::{Application, Figures, Files, Place, Requirements};
use crate::host::arguments::HostArguments;
use crate::host::control::Control;
use crate::host::export::Export;
use crate::host::manager::Manager;
use crate::host::meter::{Meter, figures_line, finish};
use crate::host::metrics;
use crate::host::obey::obey;
use crate::host::place_figures::PlaceFigures;
use crate::host::privilege::Privilege;
use crate::live::Printer;
use crate::signals::Signals;
use qanat::{Placement, Runtime};
use qanat_export::parts::Part;
use serde_json::json;
use std::net::TcpListener;
use std::sync::{Mutex, PoisonError};

/// See the [module](self).
pub struct Hosted<'a, A: Application> {
    pub application: A,
    pub options: &'a HostArguments,
    pub requirements: Requirements,
    pub files: Files,
    pub privilege: Privilege,
    pub control: Control<A::Figures>,
    pub printer: Printer,
    pub manager: Manager,
    export: Option<Export>,
    /// What held the service when it ended.
    place: Mutex<PlaceFigures>,
}

/// What is waited for once the rights are given up.
pub struct Watchers {
    pub signals: Signals,
    pub metrics: Option<TcpListener>,
}

/// Marks what wakes the service besides packets.
const DOORBELL_TOKEN: u64 = 1;

/// Has a runtime watch what wakes its service besides packets.
///
/// # Errors
/// Out of descriptors.
pub fn watch<A: Application, P: Placement>(service: &A::Service, runtime: &mut Runtime<P>) -> Result<(), String> {
    let Some((doorbell, what)) = A::doorbell(service) else { return Ok(()) };
    runtime.watch(doorbell, DOORBELL_TOKEN).map_err(|error| format!("watching for {what}: {error}"))
}

impl<'a, A: Application> Hosted<'a, A> {
    /// Not running yet.
    ///
    /// # Errors
    /// Out of descriptors, or the service manager isn't there.
    pub fn new(
        application: A,
        options: &'a HostArguments,
        requirements: Requirements,
        (privilege, export): (Privilege, Option<Export>),
    ) -> Result<Hosted<'a, A>, String> {
        Ok(Hosted {
            files: application.files(),
            control: Control::new(requirements.queues)?,
            printer: Printer::new(options.json),
            manager: Manager::find()?,
            place: Mutex::default(),
            application,
            options,
            requirements,
            privilege,
            export,
        })
    }

    /// Threads begin: those that tell figures, the application's own, those that obey signals.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn begin(&self, watchers: Watchers) -> Result<(), String> {
        if let (Some(listener), Some(text)) = (watchers.metrics, self.application.metrics()) {
            let control = self.control.clone();
            metrics::serve(listener, A::NAME, move || text(&A::Figures::sum(&control.each())))?;
        }
        self.application.begin()?;
        self.export.as_ref().map_or(Ok(()), |export| self.serve(export))?;
        obey(watchers.signals, self.control.clone(), self.application.reload())
    }

    /// Gives up the rights, makes the one service of a runtime, and has it listen.
    ///
    /// # Errors
    /// What can't be given up, what the user that goes on can't use, or why the service does not start.
    pub fn start<P: Placement>(
        &self,
        place: &Place,
        runtime: &mut Runtime<P>,
        watchers: Watchers,
    ) -> Result<A::Service, String> {
        self.privilege.give_up(self.files.places.clone())?;
        self.privilege.check(&self.files.needs)?;
        self.application.prepare(1)?;
        let mut service = self.application.service(place)?;
        watch::<A, _>(&service, runtime)?;
        self.begin(watchers)?;
        runtime.start(&mut service).map_err(|error| error.to_string())?;
        Ok(service)
    }

    /// Conventional programs can read what the application has, and its figures as of the last second.
    fn serve(&self, export: &Export) -> Result<(), String> {
        let control = self.control.clone();
        let figures = move || {
            let each = control.each();
            let line = figures_line::<A>("figures", &A::Figures::sum(&each), &each);
            Ok(format!("{line}\n").into())
        };
        let mut parts = self.application.parts();
        parts.push(("figures.json".to_owned(), Part::File(Box::new(figures))));
        export.serve(parts)?;
        let directory = export.directory().display().to_string();
        self.printer.lasting(match self.printer.is_json() {
            true => json!({ "event": "exporting", "directory": directory }).to_string(),
            false => format!("Files at {directory}"),
        });
        Ok(())
    }

    /// The service listens.
    ///
    /// # Errors
    /// The service manager can't be told.
    pub fn announce(&self, place: &Place) -> Result<(), String> {
        self.application.announcement(place).tell(&self.printer);
        self.manager.tell_ready()
    }

    /// The live line, news, and a sign of life. For the thread that does the service's work.
    pub fn show(
        &self,
        meter: &mut Meter<A::Figures>,
        each: &[A::Figures],
        place: impl FnOnce() -> PlaceFigures,
        notes: &[String],
    ) {
        self.manager.is_alive();
        meter.show::<A>(&self.printer, each, place);
        self.tell(notes);
    }

    /// Tells news.
    pub fn tell(&self, notes: &[String]) {
        for text in notes {
            self.printer.lasting(match self.printer.is_json() {
                true => json!({ "event": A::NOTE, "text": text }).to_string(),
                false => text.clone(),
            });
        }
    }

    /// The service has ended, on this card at least.
    pub fn ends(&self, place: impl FnOnce() -> PlaceFigures) {
        if A::TELLS_PLACE {
            *self.place.lock().unwrap_or_else(PoisonError::into_inner) = place();
        }
    }

    /// The last lines.
    pub fn finish(&self) {
        let place = std::mem::take(&mut *self.place.lock().unwrap_or_else(PoisonError::into_inner));
        finish::<A>(&self.printer, &self.control.each(), place);
    }
}
