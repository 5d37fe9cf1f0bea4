//! Users with a password (RFC 7617). A guess costs milliseconds of a thread of its own; what was right once costs nothing more. One peer
//! has one guess under way at a time, so that nobody keeps others out by guessing.

use super::respond::Exchange;
use super::{Commands, WebService};
use crate::http::authorization;
use crate::readers::{Guess, Job};
use crate::rules::{Passwords, Space};
use qanat::stack::Peer;
use std::sync::Arc;

impl WebService {
    /// Whether a request for one of these paths goes on. If not, it is answered, or waits.
    pub(super) fn is_let_in<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        site: usize,
        paths: [&[u8]; 2],
        head: &[u8],
        context: &mut C,
    ) -> bool {
        let Some(access) = self.sites.get(site).map(|site| &site.access) else { return true };
        let credentials = authorization::basic(exchange.request);
        let is_known = |space: &Space| credentials.as_ref().is_some_and(|it| space.knows(&it.user, &it.password));
        // Each path's users are asked for: what is open to some is not to lead to what is open to fewer.
        let spaces = paths.iter().flat_map(|path| access.find(path)).filter_map(|at| Some((at, access.space(at)?)));
        let mut unknown = spaces.filter(|(_, space)| !is_known(space)).map(|(at, it)| (at, Arc::clone(&it.passwords)));
        let next = unknown.next();
        drop(unknown);
        let Some((space, passwords)) = next else { return true };
        match credentials {
            Some(credentials) => {
                let guess = Guess { epoch: self.epoch, site, space, credentials };
                self.guess(exchange, guess, passwords, head, context);
            }
            None => self.ask_for_password(exchange, site, space, context),
        }
        false
    }

    fn guess<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        guess: Guess,
        passwords: Arc<Passwords>,
        head: &[u8],
        context: &mut C,
    ) {
        let Some(connection) = self.connections.get(exchange.id) else { return };
        let peer: Peer = connection.peer.ip().into();
        if !self.guesses.has(&guess) {
            if self.guesses.has_other_of(peer, &guess.credentials) {
                self.figures.guesses_limited += 1;
                return self.refuse(exchange, 429, "There is another attempt under way: wait a second.", context);
            }
            let job = Job::Verify { guess: guess.clone(), passwords };
            if self.guesses.are_full() || !self.submit(job) {
                self.figures.guesses_limited += 1;
                return self.refuse(exchange, 503, "There are too many attempts under way.", context);
            }
        }
        if self.wait(exchange.id, head, context) {
            self.guesses.wait(guess, peer, exchange.id);
        }
    }

    /// A guess was looked at.
    pub(super) fn on_verified<C: Commands>(&mut self, guess: &Guess, is_right: bool, context: &mut C) {
        // A reload may have come between: then all is looked at again, in what there is now.
        let is_old = guess.epoch != self.epoch;
        let space = self.sites.get_mut(guess.site).and_then(|site| site.access.space_mut(guess.space));
        if let Some(space) = space.filter(|_| is_right && !is_old) {
            space.remember(&guess.credentials.user, &guess.credentials.password);
        }
        self.figures.passwords_right += u64::from(is_right);
        self.figures.passwords_wrong += u64::from(!is_right);
        for id in self.guesses.end(guess) {
            self.go_on_waiting(id, context, |service, exchange, head, context| match is_right || is_old {
                true => service.on_get(exchange, head, context),
                false => service.ask_for_password(exchange, guess.site, guess.space, context),
            });
        }
    }

    fn ask_for_password<C: Commands>(
        &mut self,
        exchange: Exchange<'_, '_, '_>,
        site: usize,
        space: usize,
        context: &mut C,
    ) {
        let space = self.sites.get(site).and_then(|site| site.access.space(space));
        let realm = space.map_or("/", |space| &space.realm);
        let line = format!("WWW-Authenticate: Basic realm=\"{realm}\", charset=\"UTF-8\"\r\n");
        self.refuse_saying(exchange, 401, "This is for users with a password.", &line, context);
    }
}

#[cfg(test)]
mod tests {
    use super::super::guesses::{GUESSES_MAX, Guesses};
    use super::super::rules_tests::{as_user, protected, site};
    use super::*;
    use crate::http::authorization::Credentials;
    use qanat::ConnectionId;

    #[test]
    fn one_peer_guesses_once_at_a_time() {
        let directory = site();
        let mut bench = protected(&directory, &["/admin/*"]);
        let id = bench.open();
        let peer: Peer = bench.service.connections.get(id).unwrap().peer.ip().into();
        let others: Peer = "192.0.2.99".parse::<std::net::IpAddr>().unwrap().into();
        let guess = |password: String| Guess {
            epoch: 0,
            site: 0,
            space: 0,
            credentials: Credentials { user: "eve".to_owned(), password: password.into_bytes() },
        };
        // Others' guesses are no reason to wait; all that there may be are.
        for count in 0..GUESSES_MAX - 1 {
            let nobody = ConnectionId::new(1_000, 0);
            bench.service.guesses.wait(guess(format!("{count}")), others, nobody);
        }
        assert_eq!(bench.get("/admin/", &as_user("ann:right")).status, 200);
        bench.service.guesses.wait(guess("last".to_owned()), others, ConnectionId::new(1_000, 0));
        assert_eq!(bench.get("/admin/", &as_user("bob:right")).status, 503);
        assert_eq!(bench.get("/admin/", &as_user("ann:right")).status, 200, "who was let in stays so");
        bench.service.guesses = Guesses::default();
        bench.service.guesses.wait(guess("its own".to_owned()), peer, ConnectionId::new(1_000, 0));
        let refused = bench.get("/admin/", &as_user("bob:right"));
        assert_eq!((refused.status, refused.field("retry-after")), (429, Some("1")));
        assert_eq!(bench.service.figures().guesses_limited, 2);
        // The same is said once more: it waits for the same answer.
        let id = bench.open();
        bench.data(id, format!("GET /admin/ HTTP/1.1\r\nHost: a\r\n{}\r\n", as_user("eve:its own")));
        assert!(bench.is_busy(id));
        let (service, stack) = (&mut bench.service, &mut bench.stack);
        service.on_verified(&guess("its own".to_owned()), false, stack);
        bench.run(id);
        assert!(bench.peer.streams[&id].starts_with(b"HTTP/1.1 401 "));
        assert!(!bench.service.guesses.has(&guess("its own".to_owned())));
        // What was looked at before a reload is looked at again.
        let id = bench.open();
        bench.data(id, format!("GET /admin/ HTTP/1.1\r\nHost: a\r\n{}\r\n", as_user("eve:before")));
        assert!(bench.is_busy(id));
        bench.service.reload();
        let (service, stack) = (&mut bench.service, &mut bench.stack);
        service.on_verified(&guess("before".to_owned()), true, stack);
        bench.run(id);
        assert!(bench.peer.streams[&id].starts_with(b"HTTP/1.1 401 "));
    }
}
