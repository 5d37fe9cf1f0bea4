//! The reader of scripts.

use super::syntax::{Action, Call, Icmp, Line, Note, Opt, Script, Segment, Stack, When};
use std::time::Duration;

type Result<T> = std::result::Result<T, String>;

/// Reads a script.
///
/// # Errors
/// The line number and what is wrong with it.
pub fn parse(name: &str, text: &str) -> Result<Script> {
    let mut script = Script { name: name.to_owned(), mtu: 1500, ..Script::default() };
    for (index, line) in text.lines().enumerate() {
        let at = |message: String| format!("{name}:{}: {message}: `{line}`", index + 1);
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if let Some(comment) = line.strip_prefix("//") {
            read_comment(&mut script, comment.trim());
        } else if line.starts_with("--") {
            for option in line.split_whitespace() {
                read_option(&mut script, option).map_err(at)?;
            }
        } else {
            let line = read_line(line, index + 1).map_err(at)?;
            script.lines.push(line);
        }
    }
    if script.section.is_empty() || script.sentence.is_empty() || script.title.is_empty() {
        return Err(format!("{name}: needs comments `// title`, `// rfc: 9293 3.5`, `// says: sentence`"));
    }
    Ok(script)
}

fn read_comment(script: &mut Script, comment: &str) {
    let (key, value) = comment.split_once(':').unwrap_or(("", comment));
    let value = value.trim();
    match key {
        "rfc" => {
            let (number, section) = value.split_once(' ').unwrap_or((value, ""));
            script.section = format!("RFC {number} §{section}");
        }
        "says" => script.sentence = format!("“{value}”"),
        "means" => script.sentence = value.to_owned(),
        "qanat" | "linux" => {
            let stack = if key == "qanat" { Stack::Qanat } else { Stack::Linux };
            let (kind, reason) = value.split_once(' ').unwrap_or((value, ""));
            let reason = reason.to_owned();
            let note = match kind {
                "skip" => Note::Skip(reason),
                "bug" => Note::Bug(reason),
                "deviation" => Note::Deviation(reason),
                _ => return,
            };
            script.notes.push((stack, note));
        }
        _ if script.title.is_empty() => script.title = comment.to_owned(),
        _ => {}
    }
}

fn read_option(script: &mut Script, option: &str) -> Result<()> {
    let (key, value) = option.split_once('=').unwrap_or((option, ""));
    match key {
        "--tolerance_usecs" => script.tolerance = Some(Duration::from_micros(number(value)?)),
        "--mtu" => script.mtu = number(value)?,
        "--ip_version" => script.ipv6 = value == "ipv6",
        "--check_push" => script.check_push = true,
        _ => match key.strip_prefix("--sysctl:") {
            Some(name) => {
                script.sysctls.insert(name.to_owned(), value.replace(',', " "));
            }
            None => return Err(format!("unknown option {key}")),
        },
    }
    Ok(())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| format!("`{text}` is not a number here"))
}

fn seconds(text: &str) -> Result<Duration> {
    let value: f64 = number(text)?;
    Duration::try_from_secs_f64(value).map_err(|error| error.to_string())
}

fn read_when(text: &str) -> Result<When> {
    if text == "*" {
        return Ok(When::Any);
    }
    if let Some((from, to)) = text.split_once('~') {
        let plain = |part: &str| seconds(part.trim_start_matches('+'));
        return Ok(When::Range(plain(from)?, plain(to)?));
    }
    match text.strip_prefix('+') {
        Some(after) => Ok(When::Relative(seconds(after)?)),
        None => Ok(When::Absolute(seconds(text)?)),
    }
}

fn read_line(line: &str, number: usize) -> Result<Line> {
    let (only, line) = match line.strip_prefix("[qanat]") {
        Some(rest) => (Some(Stack::Qanat), rest.trim()),
        None => match line.strip_prefix("[linux]") {
            Some(rest) => (Some(Stack::Linux), rest.trim()),
            None => (None, line),
        },
    };
    let line = line.split(" //").next().unwrap_or(line);
    let (when, rest) = line.split_once(char::is_whitespace).ok_or("no event")?;
    let when = read_when(when)?;
    let rest = rest.trim();
    let action = match rest.as_bytes().first() {
        Some(b'<') => read_inbound(rest[1..].trim())?,
        Some(b'>') => Action::Outbound(read_segment(rest[1..].trim(), false)?),
        Some(b'`') => Action::Wait,
        _ => Action::Call(read_call(rest)?),
    };
    Ok(Line { number, only, when, action })
}

fn read_inbound(text: &str) -> Result<Action> {
    match text.strip_prefix('[') {
        Some(rest) if rest.starts_with(|first: char| first.is_ascii_digit()) => {
            let (quoted, rest) = rest.split_once(']').ok_or("`]` is missing")?;
            let (sequence, length) = read_range(quoted)?;
            Ok(Action::Icmp(read_icmp(rest.trim(), sequence, length)?))
        }
        _ => Ok(Action::Inbound(read_segment(text, true)?)),
    }
}

fn read_icmp(text: &str, sequence: u32, length: u32) -> Result<Icmp> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (kind, code) = match words.get(1..).unwrap_or(&[]) {
        ["unreachable", "net_unreachable", ..] => (3, 0),
        ["unreachable", "host_unreachable", ..] => (3, 1),
        ["unreachable", "protocol_unreachable", ..] => (3, 2),
        ["unreachable", "port_unreachable", ..] => (3, 3),
        ["unreachable", "frag_needed", ..] => (3, 4),
        ["unreachable", "net_prohibited", ..] => (3, 9),
        ["unreachable", "host_prohibited", ..] => (3, 10),
        ["unreachable", "packet_filtered", ..] => (3, 13),
        ["source_quench", ..] => (4, 0),
        ["time_exceeded", ..] => (11, 0),
        ["parameter_problem", ..] => (12, 0),
        // ICMPv6
        ["packet_too_big", ..] => (2, 0),
        ["unreachable6", "admin_prohibited", ..] => (1, 1),
        ["unreachable6", "address_unreachable", ..] => (1, 3),
        ["unreachable6", "port_unreachable", ..] => (1, 4),
        _ => return Err("unknown ICMP message".into()),
    };
    let mtu = words.iter().position(|word| *word == "mtu").and_then(|at| words.get(at + 1));
    let mtu = mtu.map_or(Ok(0), |mtu| number(mtu))?;
    Ok(Icmp { sequence, length, kind, code, mtu })
}

/// `1:1001(1000)`.
fn read_range(text: &str) -> Result<(u32, u32)> {
    let (start, rest) = text.split_once(':').ok_or("a range is `start:end(length)`")?;
    let (end, length) = rest.split_once('(').ok_or("a range is `start:end(length)`")?;
    let (start, end): (u32, u32) = (number(start)?, number(end)?);
    let length: u32 = number(length.trim_end_matches(')'))?;
    if start.wrapping_add(length) != end {
        return Err(format!("{start} + {length} is not {end}"));
    }
    Ok((start, length))
}

fn read_segment(text: &str, inbound: bool) -> Result<Segment> {
    let mut segment = Segment { options: Some(Vec::new()), ..Segment::default() };
    let mut text = text;
    if let Some(rest) = text.strip_prefix('[') {
        let (ecn, rest) = rest.split_once(']').ok_or("`]` is missing")?;
        segment.ecn = Some(match ecn {
            "noecn" => 0,
            "ect1" => 1,
            "ect0" => 2,
            "ce" => 3,
            _ => return Err(format!("unknown ECN codepoint {ecn}")),
        });
        text = rest.trim();
    }
    let (head, options) = match text.split_once('<') {
        Some((head, options)) => (head, Some(options.trim().strip_suffix('>').ok_or("`>` is missing")?)),
        None => (text, None),
    };
    let mut words = head.split_whitespace();
    segment.flags = read_flags(words.next().ok_or("no flags")?)?;
    (segment.sequence, segment.length) = read_range(words.next().ok_or("no sequence numbers")?)?;
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        match word {
            "ack" => segment.acknowledgment = Some(number(value)?),
            "win" => segment.window = Some(number(value)?),
            "urg" => segment.urgent = number(value)?,
            _ => return Err(format!("unknown field {word}")),
        }
    }
    if (segment.flags & 0x10 != 0) != segment.acknowledgment.is_some() {
        return Err("`.` and `ack` go together".into());
    }
    match options {
        Some("...") => segment.options = None,
        Some(list) => segment.options = Some(list.split(',').map(read_option_item).collect::<Result<_>>()?),
        None => {}
    }
    if inbound && segment.options.is_none() {
        return Err("options of an inbound segment must be given".into());
    }
    Ok(segment)
}

fn read_flags(text: &str) -> Result<u8> {
    text.chars().try_fold(0, |flags, letter| {
        let bit = match letter {
            'F' => 1,
            'S' => 2,
            'R' => 4,
            'P' => 8,
            '.' => 16,
            'U' => 32,
            'E' => 64,
            'W' => 128,
            '-' => 0,
            _ => return Err(format!("unknown flag {letter}")),
        };
        Ok(flags | bit)
    })
}

fn wild<T: std::str::FromStr>(text: &str) -> Result<Option<T>> {
    if text == "*" { Ok(None) } else { number(text).map(Some) }
}

fn read_option_item(text: &str) -> Result<Opt> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["mss", value] => Ok(Opt::Mss(wild(value)?)),
        ["wscale", value] => Ok(Opt::WindowScale(wild(value)?)),
        ["sackOK"] => Ok(Opt::SackPermitted),
        ["nop"] => Ok(Opt::NoOperation),
        ["eol"] => Ok(Opt::End),
        ["TS", "val", value, "ecr", echo] => Ok(Opt::Timestamps(wild(value)?, wild(echo)?)),
        ["sack", blocks @ ..] => {
            let block = |text: &&str| -> Result<(u32, u32)> {
                let (start, end) = text.split_once(':').ok_or("a SACK block is `start:end`")?;
                Ok((number(start)?, number(end)?))
            };
            Ok(Opt::Sack(blocks.iter().map(block).collect::<Result<_>>()?))
        }
        [raw] => match raw.strip_prefix("raw:") {
            Some(hex) => {
                let digit = |index: usize| {
                    let pair = hex.get(index..index + 2).ok_or("an odd number of digits")?;
                    u8::from_str_radix(pair, 16).map_err(|error| error.to_string())
                };
                Ok(Opt::Raw((0..hex.len()).step_by(2).map(digit).collect::<Result<_>>()?))
            }
            None => Err(format!("unknown option {raw}")),
        },
        _ => Err(format!("unknown option {text}")),
    }
}

fn read_call(text: &str) -> Result<Call> {
    let (name, rest) = text.split_once('(').ok_or("a call is `name(arguments) = result`")?;
    let (arguments, result) = rest.rsplit_once(" = ").ok_or("a call is `name(arguments) = result`")?;
    let arguments = arguments.trim().strip_suffix(')').ok_or("`)` is missing")?;
    let mut result = result.split_whitespace();
    let value = number(result.next().unwrap_or(""))?;
    let arguments = arguments.split(',').map(|argument| argument.trim().to_owned()).collect();
    Ok(Call { name: name.to_owned(), arguments, result: value, errno: result.next().map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script() {
        let text = "// opens\n// rfc: 9293 3.5\n// says: x\n--sysctl:tcp_ecn=1 --mtu=1400\n\
            0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n\
            +.1 < SEW 0:0(0) win 1000 <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7>\n\
            [linux] +0 > SE. 0:0(0) ack 1 <...>\n\
            +0~+.2 > P. 1:11(10) ack 1 <nop,nop,sack 1:2 3:4>\n\
            * < [1:11(10)] icmp unreachable frag_needed mtu 1200\n+0 read(4, ..., 10) = -1 EAGAIN (x)\n";
        let script = parse("x", text).unwrap();
        assert_eq!(script.lines.len(), 6);
        assert_eq!(script.mtu, 1400);
        assert_eq!(script.lines[2].only, Some(Stack::Linux));
        let Action::Outbound(segment) = &script.lines[3].action else { panic!() };
        assert_eq!(segment.options, Some(vec![Opt::NoOperation, Opt::NoOperation, Opt::Sack(vec![(1, 2), (3, 4)])]));
        let Action::Icmp(icmp) = &script.lines[4].action else { panic!() };
        assert_eq!((icmp.mtu, icmp.sequence, icmp.length), (1200, 1, 10));
        let Action::Call(call) = &script.lines[5].action else { panic!() };
        assert_eq!((call.result, call.errno.as_deref()), (-1, Some("EAGAIN")));
    }

    #[test]
    fn wrong_ranges_are_refused() {
        assert!(read_range("1:10(10)").is_err());
        assert!(read_segment(". 1:1(0)", true).is_err());
    }
}
