//! Certificates by name and kind, tickets, versions, protocols, clients' certificates, and files that are wrong.

use super::bench::{Bench, Files, echo};
use crate::{CertificateFiles, MinimumVersion, SelfSigned, TlsSettings};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use std::sync::Arc;

#[test]
fn a_client_is_shown_the_certificate_of_the_name_it_asks_for() {
    let (other, own, wild) =
        (Files::new(&["b.example.org"]), Files::new(&["A.example.org"]), Files::new(&["*.example.org"]));
    for (all, shown) in [([&other, &own], &own), ([&own, &other], &own), ([&other, &wild], &wild)] {
        let certificates = all.iter().flat_map(|files| files.settings().certificates).collect();
        let loaded = TlsSettings { certificates, ..TlsSettings::default() }.load(None).unwrap();
        let mut bench = Bench::new(&loaded, &Arc::new(shown.client(&[&TLS13])), echo());
        bench.say(b"x");
        assert_eq!((bench.read.as_slice(), &bench.failure), (b"x".as_slice(), &None));
    }
    // A name that is not ours: there is a certificate, and the client refuses it.
    let loaded = other.settings().load(None).unwrap();
    let mut bench = Bench::new(&loaded, &Arc::new(other.client(&[&TLS13])), echo());
    bench.run();
    assert!(matches!(bench.failure, Some(rustls::Error::InvalidCertificate(_))), "{:?}", bench.failure);
    bench.run();
    assert_eq!(bench.layer.figures().handshakes_failed, 1, "it says so");
}

#[test]
fn tickets_are_good_for_the_next_configuration_too() {
    let files = Files::new(&["a.example.org"]);
    let loaded = files.settings().load(None).unwrap();
    for version in [&TLS13, &TLS12] {
        let client = Arc::new(files.client(&[version]));
        let mut bench = Bench::new(&loaded, &client, echo());
        bench.say(b"x");
        bench.layer.set_config(files.settings().load(Some(&loaded.tickets)).unwrap().config);
        bench.again(&client);
        bench.say(b"y");
        let figures = bench.layer.figures();
        assert_eq!((figures.handshakes, figures.handshakes_resumed, bench.read.as_slice()), (2, 1, b"y".as_slice()));
        // Other keys: a whole handshake, and no harm.
        bench.layer.set_config(files.settings().load(None).unwrap().config);
        bench.again(&client);
        bench.say(b"z");
        let figures = bench.layer.figures();
        assert_eq!((figures.handshakes, figures.handshakes_resumed, bench.read.as_slice()), (3, 1, b"z".as_slice()));
    }
}

#[test]
fn the_oldest_version_and_the_protocol_are_as_asked_for() {
    let files = Files::new(&["a.example.org"]);
    let settings = TlsSettings {
        minimum_version: MinimumVersion::Tls13,
        protocols: vec!["h2".into(), "http/1.1".into()],
        ..files.settings()
    };
    let loaded = settings.load(None).unwrap();
    let mut bench = Bench::new(&loaded, &Arc::new(files.client(&[&TLS12])), echo());
    bench.run();
    assert!(bench.failure.is_some() && bench.told().is_closed);
    let mut client = files.client(&[&TLS13]);
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut bench = Bench::new(&loaded, &Arc::new(client), echo());
    bench.say(b"x");
    assert_eq!(bench.client.alpn_protocol(), Some(b"http/1.1".as_slice()));
    assert_eq!(bench.layer.protocol(bench.id), Some(b"http/1.1".as_slice()));
    // A client that says nothing of it gets nothing.
    let mut bench = Bench::new(&loaded, &Arc::new(files.client(&[&TLS13])), echo());
    bench.say(b"x");
    assert_eq!(bench.layer.protocol(bench.id), None);
}

#[test]
fn clients_without_a_certificate_of_theirs_are_not_served_if_one_is_asked_for() {
    let (files, of_client) = (Files::new(&["a.example.org"]), Files::new(&["client.example"]));
    let settings = TlsSettings { client_authorities: Some(of_client.chain.clone()), ..files.settings() };
    let loaded = settings.load(None).unwrap();
    let mut bench = Bench::new(&loaded, &Arc::new(files.client(&[&TLS13])), echo());
    bench.say(b"x");
    assert!(bench.read.is_empty() && bench.failure.is_some());
    assert_eq!(bench.layer.figures().handshakes, 0);
}

#[test]
fn secrets_are_written_if_asked_for_and_only_their_owner_may_read_them() {
    use std::os::unix::fs::PermissionsExt;
    let files = Files::new(&["a.example.org"]);
    let path = files.directory.path().join("secrets");
    let loaded = TlsSettings { key_log: Some(path.clone()), ..files.settings() }.load(None).unwrap();
    Bench::new(&loaded, &Arc::new(files.client(&[&TLS13])), echo()).say(b"x");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.lines().any(|line| line.starts_with("CLIENT_TRAFFIC_SECRET_0 ") && line.split(' ').count() == 3),
        "{text}"
    );
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn files_that_are_wrong_are_named() {
    let (files, other) = (Files::new(&["a.example.org"]), Files::new(&["b.example.org"]));
    let with = |chain: &std::path::Path, key: &std::path::Path| TlsSettings {
        certificates: vec![CertificateFiles { chain: chain.into(), key: key.into(), ocsp: None }],
        ..TlsSettings::default()
    };
    let missing = files.directory.path().join("missing");
    let wrong = [
        (with(&missing, &files.key), "missing"),
        (with(&files.key, &files.key), "no certificate"),
        (with(&files.chain, &files.chain), "no key"),
        (with(&files.chain, &other.key), "belong together"),
        (TlsSettings { client_authorities: Some(files.key.clone()), ..files.settings() }, "no certificate"),
        (TlsSettings { ticket_keys: vec![files.key.clone()], ..files.settings() }, "80 random bytes"),
    ];
    for (settings, expected) in wrong {
        let message = settings.load(None).unwrap_err().to_string();
        assert!(
            message.contains(expected) && message.contains(files.directory.path().to_str().unwrap())
                || message.contains(other.directory.path().to_str().unwrap()),
            "{message}"
        );
    }
    assert!(SelfSigned::new(&["ä ".to_owned()]).is_err());
    // What is made is what can be read.
    let made = SelfSigned::new(&["a.example.org".to_owned(), "192.0.2.1".to_owned()]).unwrap();
    assert!(CertificateDer::from_pem_slice(made.certificate.as_bytes()).is_ok());
    assert!(PrivateKeyDer::from_pem_slice(made.key.as_bytes()).is_ok());
}
