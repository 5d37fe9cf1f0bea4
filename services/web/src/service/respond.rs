//! From a request to its response (RFC 9110).

use super::connection::Piece;
use super::sites::NO_WAIT;
use super::{Commands, Phase, Waiters, WebService, milliseconds};
use crate::access_log::Line;
use crate::content::head::error_page;
use crate::content::{Content, Resource, ResourceKey, ResponseHead, Stamp, Target, Variant};
use crate::http::authorization;
use crate::http::condition::{self, Validators, Verdict};
use crate::http::encoding::{Coding, choose, qualities};
use crate::http::parse::{Outcome, Rejection, flag, header_storage, parse};
use crate::http::range::{self, ByteRange, RangeOutcome};
use crate::http::target::{self, TargetError};
use crate::http::{Method, Request};
use crate::readers::Job;
use qanat::{Bytes, ConnectionId};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const ALLOW: &str = "GET, HEAD, OPTIONS";

/// What one response needs from its request.
#[derive(Clone, Copy)]
pub(super) struct Exchange<'a, 'h, 'b> {
    pub(super) id: ConnectionId,
    pub(super) request: &'a Request<'h, 'b>,
    keep: bool,
    seconds: u64,
    /// How long it waited for what it needs, if it had to.
    waited: Option<Duration>,
}

impl Exchange<'_, '_, '_> {
    /// When the request is answered, seconds since 1970.
    pub(super) fn seconds(&self) -> u64 {
        self.seconds
    }
}

impl WebService {
    pub(super) fn on_request<C: Commands>(
        &mut self,
        id: ConnectionId,
        request: &Request<'_, '_>,
        head: &[u8],
        context: &mut C,
    ) {
        let Some(connection) = self.connections.get(id) else { return };
        connection.requests = connection.requests.saturating_add(1);
        let peer = connection.peer;
        let exchange = self.exchange(id, request, context);
        if let Some(rate) = &mut self.request_rate
            && !rate.allows(peer.ip().into(), milliseconds(context.now()))
        {
            self.figures.requests_limited += 1;
            return self.refuse(exchange, 429, "There were too many requests: wait a second.", context);
        }
        if self.is_redirected(id) {
            return self.answer_with_https(exchange, context);
        }
        match request.method {
            Method::Get | Method::Head if self.desk.is_some() => self.on_get_flat(exchange, head, context),
            Method::Get | Method::Head => self.on_get(exchange, head, context),
            Method::Options => self.options(exchange, context),
            Method::NotAllowed => self.refuse(exchange, 405, "This server only reads: GET, HEAD and OPTIONS.", context),
            Method::Unknown => self.refuse(exchange, 501, "This server doesn't know this method.", context),
        }
    }

    pub(super) fn exchange<'a, 'h, 'b, C: Commands>(
        &mut self,
        id: ConnectionId,
        request: &'a Request<'h, 'b>,
        context: &C,
    ) -> Exchange<'a, 'h, 'b> {
        let requests_max = self.config.limits.requests_max;
        let connection = self.connections.get(id);
        let waits_since = connection.as_ref().and_then(|connection| connection.extra.as_ref()?.waits_since);
        let waited = waits_since.map(|since| context.now().since(since));
        let requests = connection.map_or(0, |connection| connection.requests);
        let more = requests_max == 0 || requests < requests_max;
        let keep = request.keep_alive && more && !self.stopping;
        Exchange { id, request, keep, seconds: self.seconds(context.now()), waited }
    }

    pub(super) fn on_get<C: Commands>(&mut self, exchange: Exchange<'_, '_, '_>, head: &[u8], context: &mut C) {
        let request = exchange.request;
        let host = if self.sites.are_many() { request.host } else { b"" };
        // The fast path: these very bytes were asked for before.
        if !self.sites.are_protected()
            && let Some(resource) = self.store.find_raw(host, request.path_and_query)
            && resource.is_fresh(exchange.seconds, self.config.check_files)
        {
            let resource = Rc::clone(resource);
            self.figures.fast_path += 1;
            return self.serve(exchange, &resource, head, context);
        }
        let (path, _) = target::split_query(request.path_and_query);
        let path = match target::resolve(path, self.config.hidden_files) {
            Ok(path) => path,
            Err(TargetError::Malformed) => return self.refuse(exchange, 400, "This is no path.", context),
            Err(TargetError::NotFound) => return self.missing(exchange, 404, context),
        };
        let index = self.sites.index_of(request.host);
        let Some(site) = self.sites.get(index) else { return };
        let redirect = site.redirects.find(&path);
        let file = self.file_path(site.rewrites.apply(path.clone()));
        if self.sites.are_protected() && !self.is_let_in(exchange, index, [&path, &file], head, context) {
            return;
        }
        if let Some((status, to)) = redirect {
            return self.lead_elsewhere(exchange, status, to, context);
        }
        let key = ResourceKey { root: index, path: file.into_boxed_slice() };
        if let Some(resource) = self.store.find(&key) {
            let resource = Rc::clone(resource);
            if resource.is_fresh(exchange.seconds, self.config.check_files) {
                self.store.remember_raw(host, request.path_and_query, &resource);
                return self.serve(exchange, &resource, head, context);
            }
            self.figures.reloads += u64::from(matches!(resource.target, Target::File(_)));
        }
        self.look_up(exchange, key, head, context);
    }

    pub(super) fn file_path(&self, mut path: Vec<u8>) -> Vec<u8> {
        if path.is_empty() || path.ends_with(b"/") {
            path.extend_from_slice(self.config.index.as_bytes());
        }
        path
    }

    /// Has a reader find the file; the connection waits, others asking for the same wait with it.
    pub(super) fn look_up<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        key: ResourceKey,
        head: &[u8],
        context: &mut C,
    ) {
        let known = self.waiters.contains_key(&key);
        if !known && !self.submit_look_up(&key, exchange.seconds) {
            return self.refuse(exchange, 503, "The server can't read files now.", context);
        }
        if self.wait(exchange.id, head, context) {
            self.waiters.entry(key).or_default().push(exchange.id);
        }
    }

    /// A request is answered later; false: its connection is gone.
    pub(super) fn wait<C: Commands>(&mut self, id: ConnectionId, head: &[u8], context: &C) -> bool {
        let Some(connection) = self.connections.get(id) else { return false };
        connection.phase = Phase::Waiting;
        connection.since_ms = milliseconds(context.now());
        let extra = connection.extra();
        extra.waiting = head.to_vec();
        extra.waits_since.get_or_insert(context.now());
        true
    }

    /// The request of a connection that waits with one; it waits no more.
    pub(super) fn waiting_head(&mut self, id: ConnectionId) -> Option<Vec<u8>> {
        let connection = self.connections.get(id).filter(|connection| connection.phase == Phase::Waiting)?;
        connection.phase = Phase::Idle;
        Some(std::mem::take(&mut connection.extra().waiting))
    }

    fn submit_look_up(&mut self, key: &ResourceKey, now_seconds: u64) -> bool {
        let Some(site) = self.sites.get(key.root) else { return false };
        let Some(root) = &site.root else { return false };
        let job = Job::LookUp {
            epoch: self.epoch,
            root_index: key.root,
            root: Arc::clone(root),
            rules: Arc::clone(&site.rules),
            path: key.path.clone(),
            now_seconds,
        };
        self.figures.lookups += 1;
        self.submit(job)
    }

    /// A reader has looked `key` up.
    pub(super) fn on_looked_up<C: Commands>(
        &mut self,
        epoch: u64,
        key: ResourceKey,
        found: crate::content::resource::Found,
        context: &mut C,
    ) {
        let seconds = self.seconds(context.now());
        if epoch != self.epoch {
            // A reload came between: where it was looked for may be another site's place by now. Those who wait ask anew.
            for id in self.waiters.remove(&key).unwrap_or_default() {
                self.go_on_waiting(id, context, WebService::on_get);
            }
            return;
        }
        let Some(memory) = self.memory.clone() else { return };
        let replaced = self.store.find(&key).is_some();
        let resource = Resource::new(key.clone(), found, &memory, seconds);
        let resource = self.store.insert(resource, self.figures.requests);
        if replaced {
            self.store.tidy();
        }
        let waiters: Waiters = self.waiters.remove(&key).unwrap_or_default();
        for id in waiters {
            self.go_on_waiting(id, context, |service, exchange, head, context| {
                service.serve_looked_up(exchange, &resource, head, context);
            });
        }
    }

    /// The request that a connection waits with goes on by this, and the connection with what comes after it.
    pub(super) fn go_on_waiting<C: Commands>(
        &mut self,
        id: ConnectionId,
        context: &mut C,
        then: impl FnOnce(&mut WebService, Exchange<'_, '_, '_>, &[u8], &mut C),
    ) {
        let Some(head) = self.waiting_head(id) else { return };
        let mut storage = header_storage();
        // It was parsed before, with the same result.
        let Outcome::Complete(request) = parse(&head, &mut storage, &self.parse_limits) else {
            return self.abort(id, context);
        };
        let exchange = self.exchange(id, &request, context);
        then(self, exchange, &head, context);
        self.advance(id, context);
    }

    fn serve_looked_up<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        resource: &Rc<Resource>,
        head: &[u8],
        context: &mut C,
    ) {
        let request = exchange.request;
        if let Some(status) = self.stands_for(request, &resource.key) {
            return match resource.target {
                // What it stands for is known: the request finds it, and this.
                Target::File(_) => self.on_get(exchange, head, context),
                _ => self.missing(exchange, status, context),
            };
        }
        if matches!(resource.target, Target::File(_)) {
            let host = if self.sites.are_many() { request.host } else { b"" };
            self.store.remember_raw(host, request.path_and_query, resource);
        }
        self.serve(exchange, resource, head, context);
    }

    fn serve<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        resource: &Resource,
        head: &[u8],
        context: &mut C,
    ) {
        resource.used.set(self.figures.requests);
        let variants = match &resource.target {
            Target::Missing(status) => return self.substitute(exchange, &resource.key, *status, head, context),
            Target::Directory => return self.redirect(exchange, &resource.key.path, context),
            Target::File(variants) => variants,
        };
        self.serve_file(exchange, variants, context);
    }

    pub(super) fn serve_file<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        variants: &[Option<Variant>; 3],
        context: &mut C,
    ) {
        let request = exchange.request;
        let identity = variants[0].as_ref();
        let variant = match identity {
            Some(identity) if identity.representation.varies && request.flags & flag::ENCODING != 0 => {
                let available = [true, variants[1].is_some(), variants[2].is_some()];
                let chosen = choose(qualities(request), available);
                let index = Coding::ALL.iter().position(|coding| *coding == chosen).unwrap_or(0);
                variants.get(index).and_then(Option::as_ref).or(Some(identity))
            }
            other => other,
        };
        let Some(variant) = variant else { return self.missing(exchange, 404, context) };
        self.serve_variant(exchange, variant, context);
    }

    pub(super) fn serve_variant<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        variant: &Variant,
        context: &mut C,
    ) {
        let request = exchange.request;
        if request.flags & (flag::CONDITION | flag::RANGE) == 0 {
            return self.whole(exchange, variant, context);
        }
        self.conditional(exchange, variant, context);
    }

    /// 200 with everything (HEAD: with its head).
    fn whole<C: Commands>(&mut self, exchange: Exchange<'_, '_, '_>, variant: &Variant, context: &mut C) {
        let headless = exchange.request.method == Method::Head;
        let length = match &variant.content {
            Content::Object(object) if !self.tells_wait(exchange) => {
                let stamp = Stamp { seconds: exchange.seconds, close: !exchange.keep }.pack();
                let length = if headless { object.head_length() } else { object.length() };
                let piece = Piece::Object { object: Rc::clone(object), stamp, offset: 0, length };
                self.send(exchange.id, piece, context);
                length - object.head_length()
            }
            Content::Object(_) | Content::File(_) | Content::Flat(_) | Content::Page(_) => {
                let head = self
                    .head(200, exchange)
                    .field("Content-Type", variant.representation.media_type)
                    .field("Content-Length", variant.size())
                    .representation(&variant.representation)
                    .finish(b"");
                self.send(exchange.id, Piece::Bytes(Bytes::from(head)), context);
                if headless {
                    0
                } else {
                    self.send_body(exchange, variant, 0, variant.size(), context);
                    variant.size()
                }
            }
        };
        self.finish(exchange, 200, length, false, context);
    }

    pub(super) fn send_body<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        variant: &Variant,
        first: u64,
        end: u64,
        context: &mut C,
    ) {
        let length = end.saturating_sub(first);
        let piece = match &variant.content {
            Content::Object(object) => {
                let stamp = Stamp { seconds: exchange.seconds, close: !exchange.keep }.pack();
                Piece::Object { object: Rc::clone(object), stamp, offset: object.head_length() + first, length }
            }
            Content::File(file) => Piece::File { file: Arc::clone(file), offset: first, length, reading: false },
            Content::Flat(object) => return self.send_flat(exchange.id, *object, (first, length), context),
            Content::Page(bytes) => Piece::Bytes(bytes.slice(first as usize..end as usize)),
        };
        self.send(exchange.id, piece, context);
    }

    fn conditional<C: Commands>(&mut self, exchange: Exchange<'_, '_, '_>, variant: &Variant, context: &mut C) {
        let representation = &variant.representation;
        let validators = Validators { etag: &representation.etag, last_modified: representation.last_modified };
        match condition::evaluate(exchange.request, &validators) {
            Verdict::Failed => self.refuse(exchange, 412, "The file is not in the state asked for.", context),
            Verdict::NotModified => {
                let head = self.head(304, exchange).validators(representation).finish(b"");
                self.short(exchange, 304, head, context);
            }
            Verdict::Perform { range_allowed } => {
                let value = exchange.request.single("range").filter(|_| range_allowed);
                match value.map(|value| range::resolve(value, variant.size(), self.config.limits.ranges_max)) {
                    None | Some(RangeOutcome::Whole) => self.whole(exchange, variant, context),
                    Some(RangeOutcome::Unsatisfiable) => {
                        let page = error_page(416, "The file has none of the bytes asked for.");
                        let head = self
                            .head(416, exchange)
                            .field("Content-Range", format_args!("bytes */{}", variant.size()))
                            .field("Content-Type", "text/html; charset=utf-8")
                            .field("Content-Length", page.len())
                            .finish(page.as_bytes());
                        self.short(exchange, 416, head, context);
                    }
                    Some(RangeOutcome::Parts(parts)) => match parts.as_slice() {
                        [part] => self.one_range(exchange, variant, *part, context),
                        parts => self.multiple_ranges(exchange, variant, parts, context),
                    },
                }
            }
        }
    }

    /// 206 with one range (RFC 9110, 15.3.7.1).
    fn one_range<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        variant: &Variant,
        part: ByteRange,
        context: &mut C,
    ) {
        let ByteRange { first, end } = part;
        let head = self
            .head(206, exchange)
            .field("Content-Type", variant.representation.media_type)
            .field("Content-Length", end - first)
            .field("Content-Range", format_args!("bytes {first}-{}/{}", end - 1, variant.size()))
            .representation(&variant.representation)
            .finish(b"");
        let length = end - first;
        self.send(exchange.id, Piece::Bytes(Bytes::from(head)), context);
        self.send_body(exchange, variant, first, end, context);
        self.finish(exchange, 206, length, false, context);
    }

    /// 206 with several (RFC 9110, 15.3.7.2 and 14.6).
    fn multiple_ranges<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        variant: &Variant,
        parts: &[ByteRange],
        context: &mut C,
    ) {
        let nonce = self.store.number(context.now().as_nanos() ^ self.figures.requests);
        let boundary = format!("{nonce:016x}{:016x}", self.store.number(nonce));
        let size = variant.size();
        let heads: Vec<Bytes> = parts
            .iter()
            .enumerate()
            .map(|(index, part)| {
                let line = if index == 0 { "" } else { "\r\n" };
                Bytes::from(format!(
                    "{line}--{boundary}\r\nContent-Type: {}\r\nContent-Range: bytes {}-{}/{size}\r\n\r\n",
                    variant.representation.media_type,
                    part.first,
                    part.end - 1
                ))
            })
            .collect();
        let tail = Bytes::from(format!("\r\n--{boundary}--\r\n"));
        let parts_length: u64 =
            heads.iter().zip(parts).map(|(head, part)| head.len() as u64 + (part.end - part.first)).sum();
        let body_length = parts_length + tail.len() as u64;
        let head = self
            .head(206, exchange)
            .field("Content-Type", format_args!("multipart/byteranges; boundary={boundary}"))
            .field("Content-Length", body_length)
            .representation(&variant.representation)
            .finish(b"");
        let length = body_length;
        self.send(exchange.id, Piece::Bytes(Bytes::from(head)), context);
        for (head, part) in heads.into_iter().zip(parts) {
            self.send(exchange.id, Piece::Bytes(head), context);
            self.send_body(exchange, variant, part.first, part.end, context);
        }
        self.send(exchange.id, Piece::Bytes(tail), context);
        self.finish(exchange, 206, length, false, context);
    }

    /// Tells another address.
    fn lead_elsewhere<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        status: u16,
        mut to: String,
        context: &mut C,
    ) {
        let (_, query) = target::split_query(exchange.request.path_and_query);
        // The query is printable ASCII: the parser refuses everything else.
        let query = std::str::from_utf8(query).unwrap_or_default();
        match query.strip_prefix('?').filter(|_| to.contains('?')) {
            Some(more) => to.extend(["&", more]),
            None => to.push_str(query),
        }
        self.point_to(exchange, status, &to, "What was here is elsewhere.", context);
    }

    fn point_to<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        status: u16,
        to: &str,
        why: &str,
        context: &mut C,
    ) {
        self.refuse_saying(exchange, status, why, &format!("Location: {to}\r\n"), context);
    }

    pub(super) fn send_head<C: Commands>(&mut self, exchange: Exchange<'_, '_, '_>, head: Vec<u8>, context: &mut C) {
        self.send(exchange.id, Piece::Bytes(Bytes::from(head)), context);
    }

    pub(super) fn head(&mut self, status: u16, exchange: Exchange<'_, '_, '_>) -> ResponseHead {
        let head = self.any_head(exchange.id, exchange.request.host, status, exchange.seconds, !exchange.keep);
        match exchange.waited.filter(|_| self.tells_wait(exchange)) {
            Some(waited) => head.field("Server-Timing", format_args!("wait;dur={:.3}", waited.as_secs_f64() * 1e3)),
            None if self.tells_time(exchange) => head.lines(NO_WAIT),
            None => head,
        }
    }

    /// Whether the response says how long it took (Server Timing, W3C).
    fn tells_time(&self, exchange: Exchange<'_, '_, '_>) -> bool {
        self.sites.tell_time() && self.sites.of(exchange.request.host).is_some_and(|site| site.tells_time)
    }

    /// Whether it says more than prepared heads do.
    fn tells_wait(&self, exchange: Exchange<'_, '_, '_>) -> bool {
        exchange.waited.is_some() && self.tells_time(exchange)
    }

    /// With the fields of every response on this connection.
    fn any_head(&mut self, id: ConnectionId, host: &[u8], status: u16, seconds: u64, close: bool) -> ResponseHead {
        let is_redirected = self.is_redirected(id);
        let head = ResponseHead::new(status, &self.dates.text(seconds), close);
        self.common_fields(host, is_redirected).iter().fold(head, |head, lines| head.lines(lines))
    }

    /// Tells where to ask by HTTPS.
    fn answer_with_https<C: Commands>(&mut self, exchange: Exchange<'_, '_, '_>, context: &mut C) {
        let request = exchange.request;
        let Some(address) = self.https_address(request.host, request.path_and_query) else {
            return self.refuse(exchange, 400, "This is served by HTTPS, and the request names no host.", context);
        };
        self.figures.redirects += 1;
        self.point_to(exchange, 301, &address, "This is served by HTTPS.", context);
    }

    fn options<C: Commands>(&mut self, exchange: Exchange<'_, '_, '_>, context: &mut C) {
        let mut head = self.head(204, exchange).field("Allow", ALLOW);
        if self.sites.of(exchange.request.host).is_some_and(|site| site.is_shared) {
            // What a page of another origin asks first (Fetch, 4.9).
            head = head
                .field("Access-Control-Allow-Methods", ALLOW)
                .field("Access-Control-Allow-Headers", "*, Range")
                .field("Access-Control-Max-Age", 86_400);
        }
        let head = head.finish(b"");
        self.short(exchange, 204, head, context);
    }

    pub(super) fn redirect<C: Commands>(&mut self, exchange: Exchange<'_, '_, '_>, path: &[u8], context: &mut C) {
        let (asked, query) = target::split_query(exchange.request.path_and_query);
        let directory = [path, b"/"].concat();
        // If the address stands for another one, it goes on to stand for it with the slash, if it can.
        let asked = target::resolve(asked, self.config.hidden_files).map(|mut asked| {
            asked.push(b'/');
            asked
        });
        let site = self.sites.of(exchange.request.host);
        let asked = asked.ok().filter(|asked| site.is_some_and(|site| site.rewrites.apply(asked.clone()) == directory));
        let to = asked.as_ref().unwrap_or(&directory);
        let is_there = |asked: &[u8]| target::resolve(asked, self.config.hidden_files).is_ok_and(|asked| asked == *to);
        if is_there(target::split_query(exchange.request.path_and_query).0) {
            // A rule makes the directory's own address stand for what has no slash: it would lead to itself.
            return self.missing(exchange, 404, context);
        }
        let mut location = target::encode(to);
        // The query is printable ASCII: the parser refuses everything else.
        location.push_str(std::str::from_utf8(query).unwrap_or_default());
        self.point_to(exchange, 301, &location, "This is a directory: its address ends with a slash.", context);
    }

    pub(super) fn missing<C: Commands>(&mut self, exchange: Exchange<'_, '_, '_>, status: u16, context: &mut C) {
        let why = match status {
            404 => "There is nothing at this address.",
            403 => "This may not be read.",
            _ => "The server could not read this file.",
        };
        self.refuse(exchange, status, why, context);
    }

    /// An error page for a request that was understood: the connection stays as the client wishes.
    pub(super) fn refuse<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        status: u16,
        why: &str,
        context: &mut C,
    ) {
        let line = match status {
            405 => format!("Allow: {ALLOW}\r\n"),
            429 => "Retry-After: 1\r\n".to_owned(),
            _ => String::new(),
        };
        self.refuse_saying(exchange, status, why, &line, context);
    }

    /// The same, with lines of the head besides.
    pub(super) fn refuse_saying<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        status: u16,
        why: &str,
        lines: &str,
        context: &mut C,
    ) {
        let page = error_page(status, why);
        let body = if exchange.request.method == Method::Head { "" } else { &page };
        let bytes = self
            .head(status, exchange)
            .lines(lines)
            .field("Content-Type", "text/html; charset=utf-8")
            .field("Content-Length", page.len())
            .finish(body.as_bytes());
        self.short(exchange, status, bytes, context);
    }

    fn short<C: Commands>(&mut self, exchange: Exchange<'_, '_, '_>, status: u16, bytes: Vec<u8>, context: &mut C) {
        let head_length = bytes.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |end| end + 4);
        let length = bytes.len().saturating_sub(head_length) as u64;
        self.send(exchange.id, Piece::Bytes(Bytes::from(bytes)), context);
        self.finish(exchange, status, length, false, context);
    }

    /// `length` is the content's, without the head: what the combined log format counts.
    pub(super) fn finish<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        status: u16,
        length: u64,
        linger: bool,
        context: &mut C,
    ) {
        self.figures.count_response(status);
        if let Some(log) = &mut self.log
            && let Some(connection) = self.connections.get(exchange.id)
        {
            let said = if self.sites.are_protected() { authorization::basic(exchange.request) } else { None };
            log.line(&Line {
                seconds: exchange.seconds,
                peer: connection.peer,
                user: said.as_ref().map(|said| said.user.as_str()),
                is_http2: connection.is_stream,
                request: Some(exchange.request),
                status,
                bytes: length,
            });
        }
        self.end_response(exchange.id, exchange.keep, linger, context);
    }

    /// Answers what is no request, and closes.
    pub(super) fn reject<C: Commands>(&mut self, id: ConnectionId, rejection: Rejection, context: &mut C) {
        let Rejection { status, why } = rejection;
        let seconds = self.seconds(context.now());
        let page = error_page(status, why);
        let mut head = self.any_head(id, b"", status, seconds, true);
        if status == 405 {
            head = head.field("Allow", ALLOW);
        }
        let bytes = head
            .field("Content-Type", "text/html; charset=utf-8")
            .field("Content-Length", page.len())
            .finish(page.as_bytes());
        let length = page.len() as u64;
        if status == 408 {
            self.figures.timeouts_head += 1;
        } else {
            self.figures.parse_errors += 1;
        }
        self.figures.count_response(status);
        self.send(id, Piece::Bytes(Bytes::from(bytes)), context);
        if let Some(log) = &mut self.log
            && let Some(connection) = self.connections.get(id)
        {
            let (peer, is_http2) = (connection.peer, connection.is_stream);
            log.line(&Line { seconds, peer, user: None, is_http2, request: None, status, bytes: length });
        }
        self.end_response(id, false, true, context);
    }
}
