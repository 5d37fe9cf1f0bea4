//! What strangers tell the control plane, and what its administrator writes: requests and the policy. Whatever it is, it is
//! understood or refused; what is understood is said again as it was meant.

use qanat_control::address::Address;
use qanat_control::filter::Direction;
use qanat_control::protocol::{Answer, Envelope, Request, VERSION, understand};
use qanat_daemon::policy::Policy;

/// The input as a request, an answer, and a policy.
pub fn control(data: &[u8]) {
    if let Ok(request) = understand::<Request>(data) {
        let said = serde_json::to_vec(&Envelope { version: VERSION, body: &request }).expect("what we say is JSON");
        let again: Request = understand(&said).expect("what we say is understood");
        assert_eq!(format!("{request:?}"), format!("{again:?}"));
        let _ = (request.name(), request.changes(), request.vnic());
    }
    // A client believes its daemon, but need not fall over it.
    let _ = understand::<Answer>(data);
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(policy) = Policy::parse(text) else { return };
    let address = Address::from([10, 77, 0, 2]);
    for rule in &policy.rule {
        let _ = rule.check_address(address);
        for service in &rule.services {
            let filter = qanat_control::filter::Filter::service(*service);
            // May be refused for its peers, never for its own service.
            let _ = rule.check_filter(Direction::Transmit, &filter);
        }
    }
}
