//! The zones of a running server: read at its start and again on request, each by itself, so that one that cannot be used
//! harms no other; added and removed as the configuration and catalog zones say.

use super::reading::{compile, read};
use crate::log;
use qanat_dns::image::{Catalog, ZoneImage};
use qanat_dns::name::{Name, Presentation};
use qanat_dns::service::{CatalogPublisher, ZoneFile, ZoneRules};
use qanat_dns::transfer::{Control, Plan, TransferConfig, Versions, kept};
use qanat_dns::zone::members::{Member, members};
use qanat_dns::zone::{Problem, Zone};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Problems of one zone that are told; `qanat dns check` lists all.
const PROBLEMS_TOLD: usize = 5;
/// Zones told of one by one at each reload.
const ZONES_TOLD: usize = 100;

/// What is known of the zones beside what is served.
#[derive(Default)]
struct State {
    /// Of the configuration, without members of catalogs.
    rules: ZoneRules,
    /// All of them.
    whole: ZoneRules,
    /// Members of catalog zones, with the catalog each belongs to.
    members: BTreeMap<Name, (Name, Member)>,
    /// Why zones of files cannot be used.
    broken: BTreeMap<Name, Vec<String>>,
}

struct Shared {
    publisher: CatalogPublisher,
    control: Control,
    versions: Versions,
    /// Names are looked up as text.
    text_index: bool,
    /// The records of all zones are kept, and not only those that are transferred: they are exported.
    keeps_all: bool,
    /// Connections to primaries can be made: see [`Zones::can_fetch`].
    can_fetch: bool,
    /// Held while zones are read: changes are made one after the other.
    state: Mutex<State>,
}

/// See the [module](self). Clones are the same.
#[derive(Clone)]
pub struct Zones(Arc<Shared>);

/// What a change has done.
#[derive(Default)]
pub struct Changes {
    /// For the operator, a line each.
    pub lines: Vec<String>,
    new: usize,
    changed: usize,
    removed: usize,
    broken: usize,
    same: usize,
}

impl Changes {
    fn say(&mut self, line: String) {
        if self.lines.len() < ZONES_TOLD {
            self.lines.push(line);
        } else if self.lines.len() == ZONES_TOLD {
            self.lines.push("… and more: `qanat dns status` has all".to_owned());
        }
    }

    /// In one line.
    pub fn summary(&self) -> String {
        format!(
            "the zones are read again: {} new, {} changed, {} removed, {} as they were, {} that cannot be used",
            self.new, self.changed, self.removed, self.same, self.broken
        )
    }

    /// Whether a zone could not be used.
    pub fn has_broken(&self) -> bool {
        self.broken > 0
    }
}

/// A zone of a file, as it was read.
struct Loaded {
    image: Arc<ZoneImage>,
    zone: Zone,
}

fn load(file: &ZoneFile, text_index: bool) -> Result<(Loaded, Vec<Problem>), Vec<String>> {
    let (zone, problems) = read(&file.apex, &file.path).map_err(|problems| {
        let errors = problems.iter().filter(|problem| !problem.is_warning);
        let mut text: Vec<String> = errors.take(PROBLEMS_TOLD).map(Problem::to_string).collect();
        text.push(format!("`qanat dns check --name {} {}` lists everything", file.apex, file.path.display()));
        text
    })?;
    let image = compile(&zone).map_err(|error| vec![format!("{}: error: {error}", file.path.display())])?;
    let image = Arc::new(if text_index { image.with_text_index() } else { image });
    Ok((Loaded { image, zone }, problems))
}

/// Zones of other servers that were kept in files. One that is of no use is told of, and fetched anew.
fn load_kept(
    config: &TransferConfig,
    is_new: impl Fn(&Name) -> bool,
    versions: &Versions,
) -> (Vec<Arc<ZoneImage>>, Plan) {
    let mut images = Vec::new();
    let mut plan = Plan { config: config.clone(), ages: BTreeMap::new() };
    let from_elsewhere = config.zones.iter().filter(|(_, zone)| !zone.primaries.is_empty());
    for (apex, rules) in from_elsewhere.filter(|(apex, _)| is_new(apex)) {
        let Some(path) = &rules.file else { continue };
        let loaded = kept::load(path, apex).map_err(|error| error.to_string()).and_then(|kept| {
            let Some((zone, age)) = kept else { return Ok(None) };
            compile(&zone).map(|image| Some((zone, age, image)))
        });
        match loaded {
            Ok(None) => {}
            Ok(Some((zone, age, image))) => {
                images.push(Arc::new(image));
                versions.put(Arc::new(zone));
                plan.ages.insert(apex.clone(), age);
            }
            Err(error) => log::warning!("zone", "{error}"),
        }
    }
    (images, plan)
}

impl Zones {
    /// Reads all zones. Those that cannot be used are told of, and answered with SERVFAIL, as NSD and Knot do it.
    ///
    /// `keeps_all`: records of zones that are not transferred are kept, too.
    ///
    /// # Errors
    /// None of them can be used, or the rules of transfers are wrong.
    pub fn start(rules: ZoneRules, text_index: bool, keeps_all: bool) -> Result<Zones, String> {
        let config = rules.transfers().map_err(|error| error.to_string())?;
        let versions = Versions::default();
        let (mut images, mut broken, mut records) = (Vec::new(), BTreeMap::new(), Vec::new());
        for file in rules.files() {
            match load(&file, text_index) {
                Ok((loaded, problems)) => {
                    problems.iter().for_each(|problem| log::warning!("zone", "{problem}"));
                    images.push(loaded.image);
                    records.push(loaded.zone);
                }
                Err(errors) => {
                    broken.insert(file.apex, errors);
                }
            }
        }
        let fetches = config.secondaries().next().is_some();
        if images.is_empty() && !fetches {
            return Err(broken.into_values().flatten().collect::<Vec<String>>().join("\n"));
        }
        for (apex, errors) in &broken {
            tell_broken(apex, errors, "it is answered with SERVFAIL");
        }
        // Before they are served: who asks for a change told of must find it.
        for zone in records {
            let why = purpose(&rules, &config, zone.apex(), keeps_all);
            keep(&versions, zone, why);
        }
        let (kept, plan) = load_kept(&config, |_| true, &versions);
        let catalog = Catalog::new(images.into_iter().chain(kept));
        let publisher = CatalogPublisher::new(catalog.with_missing(config.secondaries().chain(broken.keys())));
        let (whole, can_fetch) = (rules.clone(), rules.may_fetch());
        let state = Mutex::new(State { rules, whole, members: BTreeMap::new(), broken });
        let control = Control::new(plan);
        let zones = Zones(Arc::new(Shared { publisher, control, versions, text_index, keeps_all, can_fetch, state }));
        zones.follow_catalogs();
        Ok(zones)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives catalogs.
    pub fn publisher(&self) -> &CatalogPublisher {
        &self.0.publisher
    }

    /// Tells the instances about transfers.
    pub fn control(&self) -> &Control {
        &self.0.control
    }

    /// Zones as they are transferred.
    pub fn versions(&self) -> &Versions {
        &self.0.versions
    }

    /// Whether connections to primaries can be made: the ports for them are taken when the server starts.
    pub fn can_fetch(&self) -> bool {
        self.0.can_fetch
    }

    /// Why zones of files cannot be used.
    pub fn broken(&self) -> BTreeMap<Name, Vec<String>> {
        self.state().broken.clone()
    }

    /// Catalog zones, and the members of catalogs with the catalog of each.
    pub fn catalogs(&self) -> (BTreeSet<Name>, BTreeMap<Name, Name>) {
        let state = self.state();
        let members = state.members.iter().map(|(apex, (catalog, _))| (apex.clone(), catalog.clone())).collect();
        (state.rules.catalogs().cloned().collect(), members)
    }

    /// Reads everything again, by `rules`: zones that are new are added, those that are gone removed.
    ///
    /// # Errors
    /// The rules cannot be followed: nothing has changed.
    pub fn reload(&self, rules: ZoneRules) -> Result<Changes, String> {
        let mut state = self.state();
        let whole = rules.with_members(&state.members);
        let former = std::mem::replace(&mut state.rules, rules);
        let mut changes = match self.apply(&mut state, whole, true) {
            Ok(changes) => changes,
            Err(error) => {
                state.rules = former;
                return Err(error);
            }
        };
        self.catalogs_changed(&mut state, &mut changes);
        Ok(changes)
    }

    /// Reads one zone again.
    ///
    /// # Errors
    /// It is no zone of a file.
    pub fn reload_one(&self, apex: &Name) -> Result<Changes, String> {
        let mut state = self.state();
        let file = state.whole.files().into_iter().find(|file| file.apex == *apex);
        let file = file.ok_or_else(|| {
            if self.0.control.is_secondary(apex) {
                format!("{apex} comes from a primary: `qanat dns refresh {apex}` asks it")
            } else {
                format!("there is no zone {apex}: `qanat dns status` lists them")
            }
        })?;
        let mut changes = Changes::default();
        self.read_files(&mut state, &[file], &mut changes);
        self.catalogs_changed(&mut state, &mut changes);
        Ok(changes)
    }

    /// A zone came from its primary: it may be a catalog.
    pub fn arrived(&self, apex: &Name) {
        let is_catalog = self.state().rules.catalogs().any(|catalog| catalog == apex);
        if is_catalog {
            self.follow_catalogs();
        }
    }

    fn follow_catalogs(&self) {
        let mut changes = Changes::default();
        self.catalogs_changed(&mut self.state(), &mut changes);
        changes.lines.iter().for_each(|line| log::info!("reload", "{line}"));
    }

    /// Goes over to other rules; with `again` zones of files that stay are read again.
    fn apply(&self, state: &mut State, whole: ZoneRules, again: bool) -> Result<Changes, String> {
        let config = whole.transfers().map_err(|error| error.to_string())?;
        if !self.0.can_fetch
            && let Some(apex) = config.secondaries().next()
        {
            return Err(format!(
                "{apex} comes from a primary, and this server took no ports for that when it started: restart it"
            ));
        }
        let mut changes = Changes::default();
        let before = state.whole.clone();
        let was_secondary: BTreeSet<Name> = self.0.control.plan().config.secondaries().cloned().collect();
        let (kept, plan) = load_kept(&config, |apex| !was_secondary.contains(apex), &self.0.versions);
        let secondaries: Vec<Name> = config.secondaries().cloned().collect();
        for apex in secondaries.iter().filter(|apex| !before.has(apex)) {
            changes.new += 1;
            changes.say(format!("{apex}: new, from its primary"));
        }
        // First the rules, then the zones: what is still on its way for a zone that is gone is thrown away by that.
        self.0.control.set(plan);
        let gone: Vec<Name> =
            self.0.versions.serials().into_iter().map(|(apex, _)| apex).filter(|apex| !whole.has(apex)).collect();
        gone.iter().for_each(|apex| self.0.versions.remove(apex));
        let catalog = self.0.publisher.latest();
        for zone in catalog.zones().iter().filter(|zone| !whole.has(zone.apex())) {
            changes.removed += 1;
            changes.say(format!("{}: removed, with serial {}", zone.apex(), zone.serial()));
        }
        let from_files: BTreeSet<Name> = whole.files().into_iter().map(|file| file.apex).collect();
        state.broken.retain(|apex, _| from_files.contains(apex));
        state.whole = whole;
        let wanted = &state.whole;
        self.0.publisher.update(|catalog| {
            let catalog = catalog.only_with(|apex| wanted.has(apex)).with(kept);
            catalog.with_missing(&secondaries)
        });
        let files: Vec<ZoneFile> =
            state.whole.files().into_iter().filter(|file| again || !before.has(&file.apex)).collect();
        self.read_files(state, &files, &mut changes);
        self.0.publisher.ring();
        Ok(changes)
    }

    /// Reads files, and has what is good of them served.
    fn read_files(&self, state: &mut State, files: &[ZoneFile], changes: &mut Changes) {
        let catalog = self.0.publisher.latest();
        let config = Arc::clone(&self.0.control.plan());
        let (mut images, mut missing) = (Vec::new(), Vec::new());
        for file in files {
            let apex = &file.apex;
            let before = catalog.zone(apex).map(|zone| zone.serial());
            match load(file, self.0.text_index) {
                Ok((loaded, problems)) => {
                    problems.iter().for_each(|problem| log::warning!("zone", "{problem}"));
                    self.note(&loaded, before, changes);
                    state.broken.remove(apex);
                    images.push(loaded.image);
                    // Before it is served: who asks for a change told of must find it.
                    let why = purpose(&state.rules, &config.config, apex, self.0.keeps_all);
                    keep(&self.0.versions, loaded.zone, why);
                }
                Err(errors) => {
                    changes.broken += 1;
                    let stays = before.map_or_else(
                        || "it is answered with SERVFAIL".to_owned(),
                        |serial| format!("serial {serial} stays"),
                    );
                    tell_broken(apex, &errors, &stays);
                    changes.say(format!("{apex}: cannot be used, {stays}: {}", errors.join("; ")));
                    if before.is_none() {
                        missing.push(apex.clone());
                    }
                    state.broken.insert(apex.clone(), errors);
                }
            }
        }
        self.0.publisher.update(|catalog| catalog.with(images).with_missing(&missing));
    }

    fn note(&self, loaded: &Loaded, before: Option<u32>, changes: &mut Changes) {
        let (apex, serial) = (loaded.zone.apex(), loaded.zone.serial());
        let records = loaded.zone.record_count();
        match before {
            None => {
                changes.new += 1;
                changes.say(format!("{apex}: new, serial {serial}, {records} records"));
            }
            Some(old) if old == serial => changes.same += 1,
            Some(old) => {
                changes.changed += 1;
                let back = (serial.wrapping_sub(old) as i32) < 0;
                let note = if back { ": it went back, so secondaries will not take it" } else { "" };
                changes.say(format!("{apex}: serial {old} became {serial}, {records} records{note}"));
            }
        }
    }

    /// Follows the catalog zones as they are now.
    fn catalogs_changed(&self, state: &mut State, changes: &mut Changes) {
        if state.rules.catalogs().next().is_none() && state.members.is_empty() {
            return;
        }
        let mut wanted: BTreeMap<Name, (Name, Member)> = BTreeMap::new();
        for catalog in state.rules.catalogs() {
            let is_former = |(_, (of, _)): &(&Name, &(Name, Member))| of == catalog;
            let former =
                state.members.iter().filter(is_former).map(|(apex, (_, member))| (apex.clone(), member.clone()));
            let listed = match self.0.versions.newest(catalog).map(|version| members(&version.zone)) {
                Some(Ok(listed)) => listed,
                // Broken, never here or expired: its members stay (RFC 9432 section 5.1).
                Some(Err(error)) => {
                    changes.say(format!("{catalog}: {error}; its members stay as they were"));
                    former.collect()
                }
                None => former.collect(),
            };
            for (apex, member) in listed {
                let holder = state.members.get(&apex).filter(|(of, _)| state.rules.catalogs().any(|known| known == of));
                // Another catalog's stays its, unless that lets it go to this one (section 4.3.1).
                let is_ours = holder.is_none_or(|(of, had)| of == catalog || had.coo.as_ref() == Some(catalog));
                if state.rules.has(&apex) {
                    changes.say(format!("{apex}: a member of {catalog}, but configured by itself: left as it is"));
                } else if is_ours && !wanted.contains_key(&apex) {
                    wanted.insert(apex, (catalog.clone(), member));
                } else if wanted.get(&apex).is_none_or(|(of, _)| of != catalog) {
                    changes.say(format!("{apex}: a member of {catalog} and of another catalog, whose it stays"));
                }
            }
        }
        if wanted == state.members {
            return;
        }
        // With another label it is another zone of that name (section 5.4): the former goes first.
        let renewed = |apex: &Name, member: &Member| wanted.get(apex).is_none_or(|(_, new)| new.id != member.id);
        let ended: Vec<Name> = state
            .members
            .iter()
            .filter(|(apex, (_, member))| renewed(apex, member))
            .map(|(apex, _)| apex.clone())
            .collect();
        let kept: BTreeMap<Name, (Name, Member)> = wanted
            .iter()
            .filter(|(apex, _)| !ended.contains(apex))
            .map(|(apex, of)| (apex.clone(), of.clone()))
            .collect();
        let files: Vec<std::path::PathBuf> = {
            let config = &self.0.control.plan().config;
            ended.iter().filter_map(|apex| config.zone(apex)?.file.clone()).collect()
        };
        // Copies of zones that are gone are of no use to anybody; there may be none.
        let forget = || files.iter().for_each(|file| drop(std::fs::remove_file(file)));
        for (members, after) in [(kept, Some(forget)), (wanted, None)] {
            match self.apply(state, state.rules.with_members(&members), false) {
                Ok(done) => {
                    changes.new += done.new;
                    changes.removed += done.removed;
                    changes.broken += done.broken;
                    done.lines.into_iter().for_each(|line| changes.say(line));
                    state.members = members;
                }
                Err(error) => return changes.say(format!("members of catalogs are not followed: {error}")),
            }
            after.iter().for_each(|forget| forget());
        }
    }
}

/// What the records of a zone of a file are kept for, beside its answers.
enum Purpose {
    /// It is transferred, so the steps to its newest version are kept as well.
    Transfers,
    /// It lists members, or it is exported.
    Reading,
    /// Nothing: they are dropped.
    None,
}

/// Why the records of the zone called `apex` are kept. `keeps_all`: zones are exported.
fn purpose(rules: &ZoneRules, config: &TransferConfig, apex: &Name, keeps_all: bool) -> Purpose {
    if config.zone(apex).is_some() {
        Purpose::Transfers
    } else if keeps_all || rules.catalogs().any(|catalog| catalog == apex) {
        Purpose::Reading
    } else {
        Purpose::None
    }
}

fn keep(versions: &Versions, zone: Zone, purpose: Purpose) {
    match purpose {
        Purpose::Transfers => versions.put(Arc::new(zone)),
        Purpose::Reading => versions.put_alone(Arc::new(zone)),
        Purpose::None => {}
    }
}

fn tell_broken(apex: &Name, errors: &[String], stays: &str) {
    let errors: String = errors.iter().map(|error| format!("\n  {error}")).collect();
    log::warning!("zone", "the zone {} cannot be used; {stays}:{errors}", Presentation(apex.wire()));
}
