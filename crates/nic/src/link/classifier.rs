//! BPF classifiers of an interface (tc's qdisc `clsact`): they see whole packets, however long, on their way between the interface and
//! the kernel.

use super::netlink::{Message, find, request, u32_at};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const INGRESS: u32 = 0xffff_fff2;
const EGRESS: u32 = 0xffff_fff3;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_ID: u16 = 11;
/// What the program returns is what becomes of the packet.
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
/// The first that is asked, of packets of all protocols.
const PRIORITY: u32 = 1 << 16;
const HEADER: usize = 20;

/// Which way packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From the interface into the kernel.
    Ingress,
    /// Out of the interface.
    Egress,
}

impl Side {
    fn parent(self) -> u32 {
        match self {
            Side::Ingress => INGRESS,
            Side::Egress => EGRESS,
        }
    }
}

/// `struct tcmsg`.
fn header(index: u32, handle: u32, parent: u32, information: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    for (target, word) in header[4..].chunks_exact_mut(4).zip([index, handle, parent, information]) {
        target.copy_from_slice(&word.to_ne_bytes());
    }
    header
}

/// Has packets of an interface of the calling thread's namespace judged by a classifier, in place of the one that was attached here
/// before. Nothing passes between the two.
///
/// # Errors
/// What the system says; `PermissionDenied` without CAP_NET_ADMIN.
pub fn set_classifier(index: u32, side: Side, program: BorrowedFd<'_>, name: &str) -> io::Result<()> {
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let message = Message::new(libc::RTM_NEWQDISC, flags, &header(index, CLSACT_HANDLE, CLSACT, 0));
    match request(message.attribute(TCA_KIND, b"clsact\0")) {
        Err(refusal) if refusal.errno() != libc::EEXIST => return Err(refusal.into()),
        _ => {}
    }
    let all = u32::from((libc::ETH_P_ALL as u16).to_be());
    let flags = libc::NLM_F_ACK | libc::NLM_F_CREATE;
    let message = Message::new(libc::RTM_NEWTFILTER, flags, &header(index, 1, side.parent(), PRIORITY | all));
    let name = [name.as_bytes(), &[0]].concat();
    request(message.attribute(TCA_KIND, b"bpf\0").nest(TCA_OPTIONS, &[], |options| {
        options
            .attribute(TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes())
            .attribute(TCA_BPF_NAME, &name)
            .attribute(TCA_BPF_FLAGS, &TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes())
    }))?;
    Ok(())
}

/// Numbers of the classifiers of an interface of the calling thread's namespace, the first that is asked first.
///
/// # Errors
/// What the system says.
pub fn classifiers(index: u32, side: Side) -> io::Result<Vec<u32>> {
    let message = Message::new(libc::RTM_GETTFILTER, libc::NLM_F_DUMP, &header(index, 0, side.parent(), 0));
    let answers = match request(message) {
        Ok(answers) => answers,
        // Without `clsact` there is nothing to ask.
        Err(refusal) if refusal.errno() == libc::EINVAL => return Ok(Vec::new()),
        Err(refusal) => return Err(refusal.into()),
    };
    let id = |answer: &Vec<u8>| u32_at(find(find(answer.get(HEADER..)?, TCA_OPTIONS)?, TCA_BPF_ID)?, 0);
    Ok(answers.iter().filter_map(id).collect())
}
