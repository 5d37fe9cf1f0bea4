//! Servers on the kernel's sockets, where an address is shared with the kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const PROTOCOL_UDP: u8 = 17;
/// `TCP_LISTEN`, and what a UDP socket without a peer has (`TCP_CLOSE`), as the tables write them.
const LISTENS: &str = "0A";
const UNCONNECTED: &str = "07";

/// Whether a socket of the kernel's, in the calling thread's namespace, waits for anybody at this port of this address: IP protocol
/// 6 (TCP) or 17 (UDP). False if the kernel does not tell.
pub fn kernel_listens(protocol: u8, address: IpAddr, port: u16) -> bool {
    let (name, state) = if protocol == PROTOCOL_UDP { ("udp", UNCONNECTED) } else { ("tcp", LISTENS) };
    // A socket of IPv6 may listen for IPv4 as well.
    [name.to_owned(), format!("{name}6")].iter().any(|table| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap_or_default();
        text.lines().skip(1).filter_map(|line| waiting(line, state)).any(|(own, at)| at == port && serves(own, address))
    })
}

/// Where the socket of a line waits, if it does.
fn waiting(line: &str, state: &str) -> Option<(IpAddr, u16)> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (address, port) = words.next()?.split_once(':')?;
    let _peer = words.next()?;
    (words.next()? == state).then_some(())?;
    Some((parse(address)?, u16::from_str_radix(port, 16).ok()?))
}

/// Words of 32 bits as the machine has them, in hexadecimal digits.
fn parse(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (at, part) in bytes.chunks_exact_mut(4).enumerate() {
                part.copy_from_slice(&word(at)?);
            }
            Some(Ipv6Addr::from(bytes).to_canonical())
        }
        _ => None,
    }
}

fn serves(own: IpAddr, address: IpAddr) -> bool {
    match own {
        IpAddr::V4(own) => address.is_ipv4() && (own.is_unspecified() || IpAddr::V4(own) == address),
        // Unless it was told otherwise (IPV6_V6ONLY), which the tables don't say; two such sockets are told apart by the IPv4 table.
        IpAddr::V6(own) => own.is_unspecified() || IpAddr::V6(own) == address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernels_tables() {
        let listens = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0";
        let native = Ipv4Addr::from(0x0100_007fu32.to_ne_bytes());
        assert_eq!(waiting(listens, LISTENS), Some((native.into(), 8080)));
        assert_eq!(waiting(listens, UNCONNECTED), None);
        let any = "   1: 00000000000000000000000000000000:0050 00000000000000000000000000000000:0000 0A 0 0 0";
        assert_eq!(waiting(any, LISTENS), Some((Ipv6Addr::UNSPECIFIED.into(), 80)));
        for broken in
            ["", "sl", "0: 0100007F 0 0A", "0: 0100007G:0050 0:0 0A", "0: 01:0050 0:0 0A", "0: 0100007F:10050 0:0 0A"]
        {
            assert_eq!(waiting(broken, LISTENS), None, "{broken}");
        }
    }

    #[test]
    fn a_listener_is_seen() {
        let address = IpAddr::from([127, 0, 0, 1]);
        let listener = std::net::TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(kernel_listens(6, address, port));
        assert!(!kernel_listens(6, [127, 0, 0, 2].into(), port) && !kernel_listens(17, address, port));
        drop(listener);
        assert!(!kernel_listens(6, address, port));
        let socket = std::net::UdpSocket::bind(("0.0.0.0", 0)).unwrap();
        assert!(kernel_listens(17, address, socket.local_addr().unwrap().port()));
    }
}
