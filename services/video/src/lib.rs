//! `qanat video`: films from a storage area, after Atlas (thesis, chapter 4).
//!
//! ```text
//!  add ── film.mp4 ── ffmpeg ──► segments, manifests ──► objects of qanat-store, each in one run of the area
//!  serve ── request ──► qanat_web (HTTP, HTTPS, HTTP/2) ──► FilmLibrary ──► read of 16 KiB ──► sealed ──► sent
//! ```
//! There is no cache and no socket buffer: what an acknowledgement frees is read then. HTTP, TLS and all limits are those of
//! [`qanat_web`]; this crate has what is of films.
//!
//! * [`film_library`]: the objects of an area as content for the web service.
//! * [`offline`]: films put in, listed, taken out and checked while nobody serves them.
//! * [`cutting`]: how ffmpeg is asked to cut a film. [`manifest`]: which files a manifest names.
#![forbid(unsafe_code)]

pub mod cutting;
pub mod film_library;
pub mod manifest;
pub mod name;
pub mod offline;
mod pages;

pub use film_library::FilmLibrary;
