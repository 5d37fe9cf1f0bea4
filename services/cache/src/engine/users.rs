//! Users: who may speak to a cache at all.

/// A user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    name: Vec<u8>,
    password: Vec<u8>,
}

/// Why a text names no users.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UsersError {
    /// A line, counted from 1, is not understood.
    #[error("line {0}: write NAME:PASSWORD, without blanks")]
    Line(usize),
    /// There is no line with one.
    #[error("there are no users in it: write NAME:PASSWORD, one a line")]
    Nobody,
}

/// The users of a text: `NAME:PASSWORD` a line, as memcached's `-Y` reads it. Empty lines count for nothing.
///
/// # Errors
/// See [`UsersError`].
pub fn users_of(text: &[u8]) -> Result<Vec<User>, UsersError> {
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let user = |(index, line): (usize, &[u8])| {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (name, password) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        match name.is_empty() || password.is_empty() || line.contains(&b' ') {
            true => Err(UsersError::Line(index + 1)),
            false => Ok(User { name: name.to_vec(), password: password.to_vec() }),
        }
    };
    let users: Vec<User> =
        lines.enumerate().filter(|(_, line)| !line.is_empty()).map(user).collect::<Result<_, _>>()?;
    if users.is_empty() { Err(UsersError::Nobody) } else { Ok(users) }
}

/// Whether these are a user's words. All users are compared, and all bytes of words of the same length: how long it takes tells nothing else.
pub fn admits(users: &[User], name: &[u8], password: &[u8]) -> bool {
    let is_same = |one: &[u8], other: &[u8]| {
        one.len() == other.len() && one.iter().zip(other).fold(0, |all, (one, other)| all | (one ^ other)) == 0
    };
    let is = |user: &User| is_same(&user.name, name) & is_same(&user.password, password);
    users.iter().fold(false, |found, user| found | is(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_user() {
        let users = users_of(b"ann:water\r\n\nbob:a:b\n").unwrap();
        assert!(admits(&users, b"ann", b"water") && admits(&users, b"bob", b"a:b"));
        assert!(!admits(&users, b"ann", b"wate") && !admits(&users, b"bob", b"water") && !admits(&users, b"", b""));
        for (text, line) in [("ann", 1), ("a:b\n:c", 2), ("a:b\n\nc:", 3), ("a b:c", 1)] {
            assert_eq!(users_of(text.as_bytes()), Err(UsersError::Line(line)), "{text:?}");
        }
        assert_eq!(users_of(b"\n\n"), Err(UsersError::Nobody));
    }
}
