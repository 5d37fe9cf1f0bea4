//! What is served where nothing is: a file of the operator's, with the error's status, or with 200 for a single-page application.

use super::respond::Exchange;
use super::{Commands, WebService};
use crate::content::{ResourceKey, Target, Variant};
use crate::http::target;
use crate::http::{Method, Request};
use std::rc::Rc;

impl WebService {
    /// Serves what the operator wants instead of an error, or a page of this service's.
    pub(super) fn substitute<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        missing: &ResourceKey,
        status: u16,
        head: &[u8],
        context: &mut C,
    ) {
        let site = self.sites.get(missing.root);
        let substitute = site.and_then(|site| site.substitutes.of(status)).map(|(as_status, path)| {
            let path = self.file_path(path.to_vec()).into_boxed_slice();
            (as_status, ResourceKey { root: missing.root, path })
        });
        let Some((as_status, key)) = substitute.filter(|(_, key)| key != missing) else {
            return self.missing(exchange, status, context);
        };
        if !self.is_asked_for_already(&key, missing)
            && !self.is_let_in(exchange, key.root, [&key.path, &key.path], head, context)
        {
            return;
        }
        let known = self.store.find(&key).map(Rc::clone);
        let Some(resource) = known.filter(|known| known.is_fresh(exchange.seconds(), self.config.check_files)) else {
            return self.look_up(exchange, key, head, context);
        };
        resource.used.set(self.figures.requests);
        match &resource.target {
            Target::File(variants) if as_status == 200 => self.serve_file(exchange, variants, context),
            Target::File([Some(identity), ..]) => self.serve_error(exchange, as_status, identity, context),
            // It isn't there either.
            _ => self.missing(exchange, status, context),
        }
    }

    /// Whether who may ask for a path may have this file instead: nothing protects it, or what does is about that path, too. Then a user of
    /// a space within it was asked for.
    fn is_asked_for_already(&self, file: &ResourceKey, missing: &ResourceKey) -> bool {
        let Some(access) = self.sites.get(file.root).map(|site| &site.access) else { return true };
        access.find(&file.path).filter_map(|at| access.space(at)).all(|space| space.covers(&missing.path))
    }

    /// If a file was looked for instead of the one that the request names: with which status that one is missing.
    pub(super) fn stands_for(&self, request: &Request<'_, '_>, found: &ResourceKey) -> Option<u16> {
        let site = self.sites.get(found.root).filter(|site| site.substitutes.are_there())?;
        let (path, _) = target::split_query(request.path_and_query);
        let path = target::resolve(path, self.config.hidden_files).ok()?;
        let asked =
            ResourceKey { root: found.root, path: self.file_path(site.rewrites.apply(path)).into_boxed_slice() };
        if asked.path == found.path {
            return None;
        }
        match self.store.find(&asked).map(|known| &known.target) {
            Some(Target::Missing(status)) => Some(*status),
            _ => Some(404),
        }
    }

    /// The whole file with an error's status: neither conditions nor ranges are of it (RFC 9110, 13.2.1 and 14.2).
    fn serve_error<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        status: u16,
        file: &Variant,
        context: &mut C,
    ) {
        let length = file.size();
        let representation = &file.representation;
        let head = self.head(status, exchange).field("Content-Type", representation.media_type);
        let head = head.field("Content-Length", length).finish(b"");
        self.send_head(exchange, head, context);
        if exchange.request.method == Method::Head {
            return self.finish(exchange, status, 0, false, context);
        }
        self.send_body(exchange, file, 0, length, context);
        self.finish(exchange, status, length, false, context);
    }
}
