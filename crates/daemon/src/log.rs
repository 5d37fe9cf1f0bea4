//! What the daemon tells of itself: one line for each event, for people and machines alike.

use crate::clients::peer::Peer;
use qanat_control::name::printable;
use serde_json::Value;
use std::fmt::{self, Display, Formatter, Write as _};

/// Something that happened, as fields in a fixed order: `event`, `result`, who asked, the VNIC, the rule, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    /// What: `vnic-create`, `vnic-delete`, `handle-reclaim`, …; for a request its name on the wire.
    pub event: &'static str,
    /// What became of it: `done`, `refused`, `cut-off`, `failed`.
    pub result: &'static str,
    /// User and group numbers and process of who asked, as the kernel says. Of a VNIC's owner the group is not kept.
    pub who: Option<(u32, Option<u32>, i32)>,
    /// The VNIC's number.
    pub vnic: Option<u32>,
    /// The policy's rule that decided.
    pub rule: Option<String>,
    /// In words: a name, a reason, a remedy.
    pub detail: String,
}

impl Event {
    pub(crate) fn new(event: &'static str, result: &'static str, detail: impl Into<String>) -> Event {
        Event { event, result, detail: detail.into(), ..Event::default() }
    }

    pub(crate) fn by(self, peer: Peer) -> Event {
        Event { who: Some((peer.user, Some(peer.group), peer.process)), ..self }
    }

    pub(crate) fn of(self, vnic: u32) -> Event {
        Event { vnic: Some(vnic), ..self }
    }

    pub(crate) fn under(self, rule: Option<&str>) -> Event {
        Event { rule: rule.map(str::to_owned), ..self }
    }

    /// By name, in their order.
    pub fn fields(&self) -> Vec<(&'static str, Value)> {
        let mut fields = vec![("event", self.event.into()), ("result", self.result.into())];
        if let Some((user, group, process)) = self.who {
            fields.push(("uid", user.into()));
            fields.extend(group.map(|group| ("gid", group.into())));
            fields.push(("pid", process.into()));
        }
        fields.extend(self.vnic.map(|vnic| ("vnic", vnic.into())));
        fields.extend(self.rule.as_deref().map(|rule| ("rule", rule.into())));
        if !self.detail.is_empty() {
            fields.push(("detail", self.detail.as_str().into()));
        }
        fields
    }
}

/// As `key=value`, quoted where need be; never more than one line, whatever a client put into a name.
impl Display for Event {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, (key, value)) in self.fields().into_iter().enumerate() {
            if number > 0 {
                f.write_char(' ')?;
            }
            match value.as_str() {
                Some(text) if is_plain(text) => write!(f, "{key}={text}")?,
                // JSON's quoting: no line break and no control character gets through; nor do marks of direction, by ours.
                _ => write!(f, "{key}={}", printable(&value.to_string()))?,
            }
        }
        Ok(())
    }
}

fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_graphic() && !matches!(letter, '"' | '=' | '\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        let peer = Peer::new(1_000, 100, 7);
        let event = Event::new("vnic-create", "refused", "no\n\"room\"").by(peer).of(3).under(Some("web servers"));
        let line = r#"event=vnic-create result=refused uid=1000 gid=100 pid=7 vnic=3 rule="web servers" detail="no\n\"room\"""#;
        assert_eq!(event.to_string(), line);
        let fields: serde_json::Map<_, _> =
            event.fields().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!((&fields["detail"], &fields["uid"]), (&"no\n\"room\"".into(), &1_000.into()));
        let turned = Event::new("vnic-create", "refused", "of \u{202e}evil\u{2028}").to_string();
        assert_eq!(turned, r#"event=vnic-create result=refused detail="of \u{202e}evil\u{2028}""#);
        let plain = Event::new("daemon-start", "done", "/run/qanat/control.sock");
        assert_eq!(plain.to_string(), "event=daemon-start result=done detail=/run/qanat/control.sock");
    }
}
