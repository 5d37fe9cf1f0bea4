//! Users, passwords and rights, as Redis 7.0 answers and refuses.

use crate::client::Store;
use qanat_kv::engine::guard::is_stranger;
use qanat_kv::engine::users::file::UsersFile;
use qanat_kv::engine::users::roster::Chance;
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

const NO_KEY: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments";
const NO_CHANNEL: &str = "-NOPERM this user has no permissions to access one of the channels used as arguments";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

/// A store whose second client is a user with these rules.
fn with_user(rules: &str) -> Store {
    let mut store = Store::new(2);
    assert_eq!(store.line(&format!("acl setuser me on >p {rules}")), "+OK");
    assert_eq!(store.say(1, b"auth me p\r\n"), "+OK");
    store
}

/// What the second client hears.
fn hears(store: &mut Store, lines: &[(&str, &str)]) {
    for (line, expected) in lines {
        assert_eq!(store.say(1, format!("{line}\r\n").as_bytes()), *expected, "{line}");
    }
}

/// A client comes in this slot.
fn comes(store: &mut Store, slot: usize) {
    store.state.sessions.insert(slot, SocketAddr::from(([10, 77, 0, 1], 5_000)), 0);
}

#[test]
fn without_users_nobody_is_asked() {
    let mut store = Store::new(1);
    let none = "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?";
    store.hears(&[
        ("auth x", none),
        ("auth default x", "+OK"),
        ("auth me x", WRONG),
        ("auth a b c", "-ERR syntax error"),
        ("hello 2 auth me x", WRONG),
        ("acl whoami", "$7 default"),
        ("acl list", "*1 $34 user default on nopass ~* &* +@all"),
        ("acl users", "*1 $7 default"),
        ("config get requirepass", "*2 $11 requirepass $0"),
    ]);
    assert!(!store.state.users.judges);
}

#[test]
fn a_password_is_asked_of_those_who_come_later() {
    let mut store = Store::new(1);
    store.hears(&[
        ("config set requirepass sesame", "+OK"),
        // Who is there already goes on, as with Redis.
        ("set k v", "+OK"),
        ("config get requirepass", "*2 $11 requirepass $10 (redacted)"),
    ]);
    comes(&mut store, 1);
    assert!(is_stranger(&store.state, 1) && !is_stranger(&store.state, 0));
    let hello = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time";
    let no = "-NOAUTH Authentication required.";
    hears(
        &mut store,
        &[
            ("get k", no),
            ("ping", no),
            ("multi", no),
            ("hello 3", hello),
            ("nosuch", "-ERR unknown command 'nosuch', with args beginning with:"),
            ("get", "-ERR wrong number of arguments for 'get' command"),
            ("auth wrong", WRONG),
            ("hello 3 auth default wrong", WRONG),
            ("auth sesame", "+OK"),
            ("get k", "$1 v"),
            ("reset", "+RESET"),
            ("get k", no),
        ],
    );
    assert!(store.say(1, b"hello 2 auth default sesame setname x\r\n").starts_with("*14 "));
    hears(&mut store, &[("get k", "$1 v")]);
    store.hears(&[("config set requirepass ''", "+OK")]);
    assert!(!store.state.users.judges);
    comes(&mut store, 1);
    hears(&mut store, &[("get k", "$1 v")]);
}

#[test]
fn who_guesses_is_closed_and_counted() {
    let mut store = Store::new(2);
    store.hears(&[("acl setuser me on >p", "+OK"), ("config set acllog-max-len 3", "+OK")]);
    for number in 0..200 {
        assert_eq!(store.say(1, format!("auth me{number} guess\r\n").as_bytes()), WRONG);
        assert_eq!(store.state.sessions.get(1).unwrap().is_ending, number >= 63);
    }
    assert_eq!((store.state.users.log.entries().len(), store.state.users.log.counts.password), (3, 200));
    assert!(store.line("info stats").contains("acl_access_denied_auth:200"));
    store.hears(&[
        ("acl log reset", "+OK"),
        ("acl log", "*0"),
        ("acl log x", "-ERR value is not an integer or out of range"),
    ]);
}

#[test]
fn commands_keys_and_channels_are_judged() {
    let mut store = with_user("~x* %R~r* %W~w* &c* +@all -@dangerous +config|get -config|set (~y* +get)");
    store.hears(&[("set x1 a", "+OK"), ("set r1 b", "+OK"), ("set y1 c", "+OK")]);
    hears(
        &mut store,
        &[
            ("acl whoami", "$2 me"),
            ("get x1", "$1 a"),
            ("get other", NO_KEY),
            ("get r1", "$1 b"),
            ("set r1 z", NO_KEY),
            ("set w1 z", "+OK"),
            ("set w1 z get", NO_KEY),
            ("get w1", NO_KEY),
            ("exists w1", ":1"),
            ("copy r1 w1", ":0"),
            ("copy w1 r1", NO_KEY),
            ("rename x1 r1", NO_KEY),
            ("mget x1 r1", "*2 $1 a $1 b"),
            ("mget x1 r1 other", NO_KEY),
            ("get y1", "$1 c"),
            ("set y1 c", NO_KEY),
            ("keys *", "-NOPERM this user has no permissions to run the 'keys' command"),
            ("config set timeout 0", "-NOPERM this user has no permissions to run the 'config|set' command"),
            ("config get timeout", "*2 $7 timeout $1 0"),
            ("acl list", "-NOPERM this user has no permissions to run the 'acl|list' command"),
            ("client nosuch", "-ERR unknown subcommand 'nosuch'. Try CLIENT HELP."),
            ("object encoding other", NO_KEY),
            ("xinfo stream other", NO_KEY),
            ("memory usage other", NO_KEY),
            ("publish d 1", NO_CHANNEL),
            ("publish c1 1", ":0"),
            ("psubscribe cx*", NO_CHANNEL),
            ("psubscribe c*", "*3 $10 psubscribe $2 c* :1"),
            ("unsubscribe d", "*3 $11 unsubscribe $1 d :1"),
            ("reset", "+RESET"),
            ("acl whoami", "$7 default"),
        ],
    );
}

#[test]
fn what_is_not_known_is_allowed_to_those_who_have_all_commands() {
    let mut store = with_user("+@slow +client");
    let refused = "-NOPERM this user has no permissions to run the 'client' command";
    hears(&mut store, &[("client nosuch", refused), ("client id", ":2")]);
}

#[test]
fn a_transaction_is_judged_twice() {
    let mut store = with_user("~x* +@all");
    hears(&mut store, &[("multi", "+OK"), ("set x1 a", "+QUEUED"), ("get other", NO_KEY)]);
    hears(&mut store, &[("exec", "-EXECABORT Transaction discarded because of previous errors.")]);
    hears(&mut store, &[("multi", "+OK"), ("set x1 a", "+QUEUED"), ("get x1", "+QUEUED")]);
    store.hears(&[("acl setuser me -get resetkeys %R~x*", "+OK")]);
    let changed = "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command is no longer allowed for the following reason: ";
    let expected = format!(
        "*2 {changed}no permission to touch the specified keys {changed}no permission to execute the command or subcommand"
    );
    hears(&mut store, &[("exec", &expected), ("exists x1", ":0")]);
}

#[test]
fn a_script_has_its_users_rights() {
    let mut store = with_user("~x* &c* +@all -keys");
    for (script, why) in [
        ("redis.pcall('get','other')", "can't access at least one of the keys mentioned in the command arguments"),
        ("redis.pcall('keys','*')", "can't run this command or subcommand"),
        ("redis.pcall('publish','d','x')", "can't publish to the channel mentioned in the command"),
    ] {
        let expected = format!("-ERR The user executing the script {why}");
        hears(&mut store, &[(&format!("eval \"return {script}\" 0"), &expected)]);
    }
    hears(
        &mut store,
        &[
            ("eval \"return redis.call('set','x1','a')\" 0", "+OK"),
            ("eval \"return 1\" 1 other", NO_KEY),
            ("eval \"return redis.pcall('acl','whoami')\" 0", "-ERR This Redis command is not allowed from script"),
        ],
    );
    let log = store.line("acl log");
    assert!(log.contains("$7 context $3 lua $6 object $1 d $8 username $2 me"), "{log}");
}

#[test]
fn rules_are_refused_as_redis_does_and_change_nothing_then() {
    let mut store = Store::new(1);
    store.hears(&[("acl setuser t on ~k +get", "+OK")]);
    let before = store.line("acl list");
    for (rule, why) in [
        ("foo", "Syntax error"),
        ("+foo", "Unknown command or category name in ACL"),
        ("+@foo", "Unknown command or category name in ACL"),
        ("<zz", "The password you are trying to remove from the user does not exist"),
        ("#12", "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"),
        ("!aa", "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"),
        ("%~x", "Syntax error"),
        ("%X~a", "Syntax error"),
        ("%R", "Syntax error"),
        ("+config|foo", "Unknown command or category name in ACL"),
        ("+config|get|x", "Allowing first-arg of a subcommand is not supported"),
        ("-get|x", "Unknown command or category name in ACL"),
        ("+client|", "Syntax error"),
        ("+select|a|b", "Unknown command or category name in ACL"),
        ("(foo)", "Syntax error"),
    ] {
        let expected = format!("-ERR Error in ACL SETUSER modifier '{rule}': {why}");
        assert_eq!(store.line(&format!("acl setuser t off +set {rule}")), expected);
    }
    store.hears(&[
        ("acl setuser t off (+get", "-ERR Unmatched parenthesis in acl selector starting at '(+get'."),
        ("acl setuser 'a b' on", "-ERR Usernames can't contain spaces or null characters"),
        ("acl deluser default", "-ERR The 'default' user cannot be removed"),
        ("acl setuser", "-ERR wrong number of arguments for 'acl|setuser' command"),
        ("acl cat a b", "-ERR unknown subcommand or wrong number of arguments for 'cat'. Try ACL HELP."),
        ("acl cat foo", "-ERR Unknown category 'foo'"),
        ("acl foo", "-ERR unknown subcommand 'foo'. Try ACL HELP."),
    ]);
    assert_eq!(store.line("acl list"), before);
    let after_all = "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try 'resetkeys' to start with an empty list of patterns";
    assert_eq!(store.line("acl setuser t allkeys ~b"), format!("-ERR Error in ACL SETUSER modifier '~b': {after_all}"));
}

#[test]
fn users_are_told_as_they_were_said() {
    let mut store = Store::new(1);
    store.hears(&[
        ("acl setuser a on >p ~x* %R~y &c* +@all -@dangerous +info -select +select|0 (%W~z +set)", "+OK"),
        ("acl getuser nobody", "$-1"),
        (
            "acl getuser a",
            "*12 $5 flags *1 $2 on $9 passwords *1 $64 148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940 \
             $8 commands $41 +@all -@dangerous +info -select +select|0 $4 keys $8 ~x* %R~y $8 channels $3 &c* \
             $9 selectors *1 *6 $8 commands $10 -@all +set $4 keys $4 %W~z $8 channels $0",
        ),
        ("acl setuser a <p nopass reset", "+OK"),
        ("acl list", "*2 $47 user a off sanitize-payload resetchannels -@all $34 user default on nopass ~* &* +@all"),
        ("acl deluser a nobody", ":1"),
    ]);
    assert!(!store.state.users.judges);
}

#[test]
fn what_a_user_may_do_is_told_without_doing_it() {
    let mut store = with_user("~x* %R~y* &c* +@all -config +config|get");
    store.hears(&[
        ("acl dryrun me get foo", "$52 This user has no permissions to access the 'foo' key"),
        ("acl dryrun me get xfoo", "+OK"),
        ("acl dryrun me set yfoo 1", "$53 This user has no permissions to access the 'yfoo' key"),
        ("acl dryrun me config set a b", "$60 This user has no permissions to run the 'config|set' command"),
        ("acl dryrun me publish d e", "$54 This user has no permissions to access the 'd' channel"),
        ("acl dryrun nobody get x", "-ERR User 'nobody' not found"),
        ("acl dryrun me foo", "-ERR Command 'foo' not found"),
        ("acl dryrun me config foo", "-ERR Command 'config' not found"),
        ("acl dryrun me get", "-ERR wrong number of arguments for 'get' command"),
    ]);
}

#[test]
fn who_loses_rights_is_judged_at_once() {
    let mut store = Store::new(5);
    store.hears(&[("acl setuser me on nopass allkeys allchannels +@all", "+OK")]);
    for slot in 1..5 {
        assert_eq!(store.say(slot, b"auth me x\r\n"), "+OK");
    }
    store.say(1, b"subscribe news\r\n");
    store.say(2, b"blpop list 0\r\n");
    let killed = |store: &Store| [1, 2, 3, 4].map(|slot| store.state.sessions.get(slot).unwrap().is_killed);
    store.hears(&[("acl setuser me -keys", "+OK")]);
    assert_eq!(killed(&store), [false; 4]);
    store.hears(&[("acl setuser me resetchannels &other", "+OK")]);
    assert_eq!(killed(&store), [true, false, false, false]);
    store.hears(&[("acl setuser me resetkeys ~x*", "+OK")]);
    assert_eq!(killed(&store), [true, true, false, false]);
    assert_eq!(store.say(3, b"get list\r\n"), NO_KEY);
    store.hears(&[("acl deluser me", ":1"), ("acl whoami", "$7 default")]);
    assert_eq!(killed(&store), [true; 4]);
}

#[test]
fn who_removes_itself_hears_the_answer() {
    let mut store = with_user("+@all");
    hears(&mut store, &[("acl deluser me", ":1")]);
    let session = store.state.sessions.get(1).unwrap();
    assert!(session.is_ending && !session.is_killed);
}

/// A file that is a piece of memory.
#[derive(Clone, Debug, Default)]
struct Memory(Rc<RefCell<Vec<u8>>>);

impl UsersFile for Memory {
    fn name(&self) -> String {
        "users".to_owned()
    }

    fn read(&self) -> io::Result<Vec<u8>> {
        Ok(self.0.borrow().clone())
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        *self.0.borrow_mut() = text.to_vec();
        Ok(())
    }
}

#[test]
fn users_are_kept_in_a_file() {
    let mut store = with_user("~x* +get");
    assert!(store.line("acl save").starts_with("-ERR This Redis instance is not configured to use an ACL file."));
    let file = Memory::default();
    store.state.users.file = Some(Box::new(file.clone()));
    comes(&mut store, 2);
    store.hears(&[("acl setuser other on nopass", "+OK"), ("acl save", "+OK")]);
    assert_eq!(store.say(2, b"auth other x\r\n"), "+OK");
    let list = store.line("acl list");
    store.hears(&[("acl setuser other +set", "+OK"), ("acl setuser more", "+OK"), ("acl load", "+OK")]);
    assert_eq!(store.line("acl list"), list);
    // Who is as before goes on.
    assert!(!store.state.sessions.get(1).unwrap().is_killed && store.state.sessions.get(2).unwrap().is_killed);
    file.replace(b"user me on\nuser you +nosuch\n").unwrap();
    assert_eq!(
        store.line("acl load"),
        "-ERR users:2: Error in applying operation '+nosuch': Unknown command or category name in ACL. WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
    );
    assert_eq!(store.line("acl list"), list);
}

#[test]
fn passwords_are_made_from_what_nobody_can_guess() {
    let mut store = Store::new(1);
    store.hears(&[("acl genpass", "-ERR there are no random bytes for a password")]);
    store.state.users.chance = Some(Chance::new([7; 32]));
    let (one, other) = (store.line("acl genpass"), store.line("acl genpass"));
    assert!(one.starts_with("$64 ") && one.len() == 68 && one != other);
    assert!(store.line("acl genpass 5").starts_with("$2 ") && store.line("acl genpass 4096").starts_with("$1024 "));
    let range =
        "-ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096";
    store.hears(&[("acl genpass 0", range), ("acl genpass 4097", range)]);
}

#[test]
fn categories_are_told_by_commands() {
    let mut store = Store::new(1);
    assert!(store.line("acl cat").starts_with("*21 $8 keyspace $4 read "));
    let dangerous = store.line("acl cat dangerous");
    assert!(
        dangerous.contains("$8 flushall ") && dangerous.contains("$10 config|set") && !dangerous.contains("$3 get ")
    );
    assert!(store.line("command info get").contains("*3 +@read +@string +@fast"));
    assert!(store.line("command list filterby aclcat geo").starts_with('*'));
}

/// Keys that are named by what a list has stand in no argument: only who may read all keys may have them read.
#[test]
fn keys_that_elements_name_are_for_who_may_read_all() {
    let mut store = Store::new(2);
    store.hears(&[
        ("acl setuser me on nopass ~l* +@all", "+OK"),
        ("rpush l 1", ":1"),
        ("set secret1 x", "+OK"),
        ("multi", "+OK"),
        ("exec", "*0"),
    ]);
    let [by, get] =
        ["BY", "GET"].map(|option| format!("-ERR {option} option of SORT denied due to insufficient ACL permissions."));
    let mut me = |line: &str| store.say(1, format!("{line}\r\n").as_bytes());
    assert_eq!(me("auth me x"), "+OK");
    assert_eq!(me("sort l by nosort get secret*"), get);
    assert_eq!(me("sort l get #"), get);
    assert_eq!(me("sort l by secret*"), by);
    assert_eq!(me("sort_ro l by secret*"), by);
    assert!(me("eval \"return redis.call('sort','l','by','secret*')\" 0").contains("BY option of SORT denied"));
    assert_eq!(me("sort l by nosort"), "*1 $1 1");
    assert_eq!((me("multi"), me("sort l by nosort get secret*")), ("+OK".to_owned(), "+QUEUED".to_owned()));
    assert_eq!(me("exec"), format!("*1 {get}"));
    // A target of another's, hidden between other words, is found.
    let refused = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    assert_eq!(me("sort l store victim by STORE limit 0 1"), refused);
    store.hears(&[("acl setuser me %R~*", "+OK")]);
    assert_eq!(store.say(1, b"sort l by secret* alpha get secret*\r\n"), "*1 $1 x");
    // It need not read what it writes.
    store.hears(&[("acl setuser me resetkeys %R~l* %W~d*", "+OK")]);
    assert_eq!(store.say(1, b"sort l store d\r\n"), ":1");
    assert_eq!(store.say(1, b"georadius l 0 0 1 m store x\r\n"), refused);
}
