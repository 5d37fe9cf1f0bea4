//! A certificate that nobody else vouches for, to try things with.

use crate::error::TlsError;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, date_time_ymd};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// It is good until the end of this year.
pub const LAST_YEAR: i32 = 2049;

/// A certificate and its key.
#[derive(Debug)]
pub struct SelfSigned {
    /// The certificate, PEM.
    pub certificate: String,
    /// The key, PEM.
    pub key: String,
    pub(crate) der: (CertificateDer<'static>, PrivateKeyDer<'static>),
}

impl SelfSigned {
    /// For these host names and addresses: ECDSA on P-256. Clients have to be told that they may trust it.
    ///
    /// # Errors
    /// A name is none.
    pub fn new(names: &[String]) -> Result<SelfSigned, TlsError> {
        let mut parameters = CertificateParams::new(names.to_vec())?;
        parameters.not_before = date_time_ymd(2020, 1, 1);
        parameters.not_after = date_time_ymd(LAST_YEAR, 12, 31);
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, "Qanat's own certificate, for trying");
        parameters.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        parameters.key_usages = vec![rcgen::KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = parameters.self_signed(&key)?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok(SelfSigned {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            der: (certificate.der().clone(), der),
        })
    }
}
