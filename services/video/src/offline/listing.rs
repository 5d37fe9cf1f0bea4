//! Which films there are.

use super::Session;
use crate::cutting::{DASH_MANIFEST, HLS_MASTER};
use crate::name;
use serde::Serialize;
use std::collections::BTreeMap;

/// A film.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Film {
    /// Its name, which its address begins with.
    pub name: String,
    /// Its files.
    pub files: usize,
    /// Bytes of these.
    pub bytes: u64,
    /// When the last of them was added, seconds since 1970.
    pub added_s: u64,
    /// The page's player finds its playlist.
    pub has_hls: bool,
    /// Players of DASH find its manifest.
    pub has_dash: bool,
}

impl Session {
    /// All films, by name.
    pub fn films(&self) -> Vec<Film> {
        let mut films: BTreeMap<&str, Film> = BTreeMap::new();
        for (object, info) in self.objects.iter() {
            let Some((path, added_s)) = name::parse(object) else { continue };
            let Some((film, file)) = path.split_once('/') else { continue };
            let film = films.entry(film).or_insert_with(|| Film {
                name: film.to_owned(),
                files: 0,
                bytes: 0,
                added_s: 0,
                has_hls: false,
                has_dash: false,
            });
            film.files += 1;
            film.bytes += info.bytes;
            film.added_s = film.added_s.max(added_s);
            film.has_hls |= file == HLS_MASTER;
            film.has_dash |= file == DASH_MANIFEST;
        }
        films.into_values().collect()
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        self.objects.free().0
    }

    /// The objects of a film.
    pub(super) fn objects_of(&self, film: &str) -> Vec<Vec<u8>> {
        let is_its = |object: &[u8]| name::parse(object).is_some_and(|(path, _)| path.split('/').next() == Some(film));
        self.objects.iter().filter(|(object, _)| is_its(object)).map(|(object, _)| object.to_vec()).collect()
    }
}
