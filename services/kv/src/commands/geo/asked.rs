//! [`Asked`]: what a search is asked for. GEORADIUS and its like say the middle and the radius first, GEOSEARCH by words.

use crate::commands::geo::area::{Extent, Shape};
use crate::commands::geo::cell::{Position, position};
use crate::commands::geo::numbers;
use crate::engine::call::Call;
use crate::engine::fault::Fault;

/// A command's form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// GEORADIUS. `true`: it may store.
    Coordinates(bool),
    /// GEORADIUSBYMEMBER.
    Member(bool),
    /// GEOSEARCH.
    Search,
    /// GEOSEARCHSTORE.
    SearchStore,
}

impl Form {
    /// Where the key is that is searched.
    pub fn source(self) -> usize {
        if self == Form::SearchStore { 2 } else { 1 }
    }

    /// Where the options begin.
    fn options(self) -> usize {
        match self {
            Form::Coordinates(_) => 6,
            Form::Member(_) => 5,
            Form::Search => 2,
            Form::SearchStore => 3,
        }
    }

    fn has_words(self) -> bool {
        matches!(self, Form::Search | Form::SearchStore)
    }

    fn may_store(self) -> bool {
        matches!(self, Form::Coordinates(true) | Form::Member(true))
    }
}

/// In which order members are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// The nearest first.
    Ascending,
    /// The farthest first.
    Descending,
}

/// How the middle is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    Member,
    Coordinates,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Asked<'a> {
    /// The middle; none if it is a member of a key that is not there.
    center: Option<Position>,
    /// How the middle was said, by GEOSEARCH.
    from: Option<From>,
    extent: Option<(Extent, f64)>,
    /// Distances are told.
    pub with_distance: bool,
    /// Scores are told.
    pub with_hash: bool,
    /// Places are told.
    pub with_position: bool,
    /// In which order.
    pub order: Option<Order>,
    /// So many at most; 0: all.
    pub count: usize,
    /// Any will do, not the nearest.
    pub any: bool,
    /// The key that is to have what is found.
    pub target: Option<&'a [u8]>,
    /// Its scores are distances.
    pub stores_distance: bool,
}

/// The place of a member of the key that is searched.
fn of_member(call: &Call<'_>, key: &[u8], index: usize) -> Result<Option<Position>, Fault> {
    let Some(sorted) = call.sorted(key)? else { return Ok(None) };
    let score = sorted.score(call.args.at(index));
    let score = score.ok_or(Fault::Said("ERR could not decode requested zset member"))?;
    Ok(Some(position(score)))
}

impl<'a> Asked<'a> {
    /// From the arguments.
    ///
    /// # Errors
    /// As Redis words them.
    pub fn parse(call: &Call<'a>, form: Form) -> Result<Asked<'a>, Fault> {
        let args = call.args;
        let key = args.at(form.source());
        let is_there = call.sorted(key)?.is_some();
        let mut asked = Asked::default();
        match form {
            Form::Coordinates(_) => asked.center = Some(numbers::position(call, 2)?),
            Form::Member(_) => asked.center = of_member(call, key, 2)?,
            Form::SearchStore => asked.target = Some(args.at(1)),
            Form::Search => {}
        }
        // Of a member of a key that is not there, Redis does not read how far it is to look.
        if matches!(form, Form::Coordinates(_)) || matches!(form, Form::Member(_)) && is_there {
            let (radius, unit) = numbers::radius(call, form.options() - 2)?;
            asked.extent = Some((Extent::Circle(radius), unit));
        }
        let mut index = form.options();
        while index < args.len() {
            let taken = asked.flag(call, index, form) || asked.count(call, index)?;
            let more = match taken {
                true if args.is(index, "COUNT") => 1,
                true => 0,
                false if form.has_words() => asked.shape(call, index, key)?.ok_or(Fault::Syntax)?,
                false => asked.target(call, index, form).ok_or(Fault::Syntax)?,
            };
            index += 1 + more;
        }
        asked.check(call, form)?;
        Ok(asked)
    }

    /// An option of one word; whether it is one.
    fn flag(&mut self, call: &Call<'a>, index: usize, form: Form) -> bool {
        match call.args.at(index).to_ascii_uppercase().as_slice() {
            b"WITHDIST" => self.with_distance = true,
            b"WITHHASH" => self.with_hash = true,
            b"WITHCOORD" => self.with_position = true,
            b"ANY" => self.any = true,
            b"ASC" => self.order = Some(Order::Ascending),
            b"DESC" => self.order = Some(Order::Descending),
            b"STOREDIST" if form == Form::SearchStore => self.stores_distance = true,
            _ => return false,
        }
        true
    }

    fn count(&mut self, call: &Call<'a>, index: usize) -> Result<bool, Fault> {
        if !call.args.is(index, "COUNT") || index + 1 >= call.args.len() {
            return Ok(false);
        }
        let count = usize::try_from(call.integer(index + 1)?).ok().filter(|count| *count > 0);
        self.count = count.ok_or(Fault::Said("ERR COUNT must be > 0"))?;
        Ok(true)
    }

    /// STORE and STOREDIST; how many arguments they take besides.
    fn target(&mut self, call: &Call<'a>, index: usize, form: Form) -> Option<usize> {
        let is_distance = call.args.is(index, "STOREDIST");
        let is_one = is_distance || call.args.is(index, "STORE");
        if !form.may_store() || !is_one || index + 1 >= call.args.len() {
            return None;
        }
        (self.target, self.stores_distance) = (Some(call.args.at(index + 1)), is_distance);
        Some(1)
    }

    /// FROMMEMBER and its like; how many arguments they take besides.
    fn shape(&mut self, call: &Call<'a>, index: usize, key: &[u8]) -> Result<Option<usize>, Fault> {
        let (args, more) = (call.args, call.args.len() - index - 1);
        let is_circle = matches!(self.extent, Some((Extent::Circle(_), _)));
        let is_rectangle = self.extent.is_some() && !is_circle;
        Ok(if args.is(index, "FROMMEMBER") && more > 0 && self.from != Some(From::Coordinates) {
            (self.center, self.from) = (of_member(call, key, index + 1)?, Some(From::Member));
            Some(1)
        } else if args.is(index, "FROMLONLAT") && more > 1 && self.from != Some(From::Member) {
            (self.center, self.from) = (Some(numbers::position(call, index + 1)?), Some(From::Coordinates));
            Some(2)
        } else if args.is(index, "BYRADIUS") && more > 1 && !is_rectangle {
            let (radius, unit) = numbers::radius(call, index + 1)?;
            self.extent = Some((Extent::Circle(radius), unit));
            Some(2)
        } else if args.is(index, "BYBOX") && more > 2 && !is_circle {
            let (width, height, unit) = numbers::sides(call, index + 1)?;
            self.extent = Some((Extent::Rectangle(width, height), unit));
            Some(3)
        } else {
            None
        })
    }

    /// What does not go together.
    fn check(&self, call: &Call<'a>, form: Form) -> Result<(), Fault> {
        if self.target.is_some() && (self.with_distance || self.with_hash || self.with_position) {
            let name = if form == Form::SearchStore { "GEOSEARCHSTORE" } else { "STORE option in GEORADIUS" };
            return Err(Fault::Told(format!(
                "ERR {name} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            )));
        }
        let name = || String::from_utf8_lossy(call.args.at(0)).into_owned();
        if form.has_words() && self.from.is_none() {
            return Err(Fault::Told(format!(
                "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for {}",
                name()
            )));
        }
        if form.has_words() && self.extent.is_none() {
            return Err(Fault::Told(format!("ERR exactly one of BYRADIUS and BYBOX can be specified for {}", name())));
        }
        if self.any && self.count == 0 {
            return Err(Fault::Said("ERR the ANY argument requires COUNT argument"));
        }
        Ok(())
    }

    /// Where to search; `None`: the key is not there.
    pub fn wanted(&self) -> Option<Shape> {
        let (extent, unit_meters) = self.extent?;
        Some(Shape { center: self.center?, extent, unit_meters })
    }

    /// The order, which the nearest ones need if only some are wanted.
    pub fn sorted(&self) -> Option<Order> {
        self.order.or((self.count > 0 && !self.any).then_some(Order::Ascending))
    }
}
