//! A certificate authority made for a test, and TLS servers that it vouches for, or should not.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// An authority that signs whatever is asked.
pub(crate) struct Authority {
    /// Its certificate, as `SSL_CERT_FILE` wants it.
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A server's certificate and key.
pub(crate) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// What a witness that trusts this authority alone must refuse as the server 127.0.0.1, and why.
    pub(crate) fn not_good(&self) -> [(&'static str, Identity); 4] {
        [
            ("UnknownIssuer", Self::new("stranger").vouch_for("127.0.0.1")),
            // Under the trusted authority's name, with another key.
            ("BadSignature", Self::new("authority").vouch_for("127.0.0.1")),
            ("not valid for name", self.vouch_for("127.0.0.2")),
            ("expired", self.vouched_once_for("127.0.0.1")),
        ]
    }

    /// A certificate for this name or address, valid for as long as anybody cares.
    pub(crate) fn vouch_for(&self, name: &str) -> Identity {
        self.sign(&CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// The same, but of another time.
    fn vouched_once_for(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        (vec![certificate.der().clone()], key.into())
    }
}

/// TLS as a web server has it: no certificate is asked of clients.
pub(crate) fn web_server((certificates, key): Identity) -> Arc<ServerConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    Arc::new(config)
}
