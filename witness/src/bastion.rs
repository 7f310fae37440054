//! Serving through an https-bastion (c2sp.org/https-bastion), for a witness without a public address:
//! it dials out, and the bastion sends requests back over the connection as HTTP/2.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::server::graceful::GracefulShutdown;
use runseal_tlog::key::{Algorithm, SignerKey};
use rustls::client::ResolvesClientCert;
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{ClientConfig, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use zeroize::Zeroizing;

use crate::server;
use crate::witness::Witness;

/// The protocol's name in the TLS handshake.
const ALPN: &[u8] = b"bastion/0";
const DIAL_TIME: Duration = Duration::from_secs(10);
/// Pause before dialling again, doubled for each failure in a row.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(1);

/// Why no bastion can be served through.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BastionError {
    /// Not `HOST:PORT`.
    #[error("--bastion {0:?} is not HOST:PORT")]
    Address(String),
    /// No Ed25519 key in this process.
    #[error(
        "a bastion knows its backends by an Ed25519 key, and none is in a key file; give one with --bastion-key FILE"
    )]
    NoKey,
    /// TLS cannot be set up.
    #[error("cannot set up TLS for the bastion: {0}")]
    Tls(#[from] rustls::Error),
    /// The authorities file is not readable as PEM.
    #[error("cannot read certificates from {path}: {reason}")]
    Authorities {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
}

/// A bastion to serve through.
#[derive(Debug)]
pub struct Bastion {
    address: String,
    name: ServerName<'static>,
    config: Arc<ClientConfig>,
    key_hash: String,
}

impl Bastion {
    /// Prepares to serve through the bastion at `address` (`HOST:PORT`) as the backend `key`.
    /// `authorities` is a PEM file of certificates to trust in place of the system's.
    ///
    /// # Errors
    /// [`BastionError`].
    pub fn new(address: &str, key: &SignerKey, authorities: Option<&Path>) -> Result<Self, BastionError> {
        let malformed = || BastionError::Address(address.to_owned());
        let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
        port.parse::<u16>().map_err(|_| malformed())?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(host.to_owned()).map_err(|_| malformed())?;
        if key.verifier().algorithm() == Algorithm::CosignatureMlDsa44 {
            return Err(BastionError::NoKey);
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            // Earlier versions show the client's certificate to everybody on the way.
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots(authorities)?)
            .with_client_cert_resolver(Arc::new(Identity(Arc::new(identity(key)?))));
        config.alpn_protocols = vec![ALPN.to_vec()];
        let key_hash = hex::encode(Sha256::digest(key.verifier().public_key()));
        Ok(Self { address: address.to_owned(), name, config: Arc::new(config), key_hash })
    }

    /// The first element of the path under which the bastion offers this backend.
    pub fn key_hash(&self) -> &str {
        &self.key_hash
    }

    /// Serves through the bastion, dialling again whenever the connection ends, until `stop` is set.
    pub async fn serve(self, witness: Arc<Witness>, mut stop: tokio::sync::watch::Receiver<bool>) {
        let mut pause = PAUSE;
        while !*stop.borrow_and_update() {
            let graceful = GracefulShutdown::new();
            let watcher = graceful.watcher();
            let serving = async {
                match tokio::time::timeout(DIAL_TIME, self.dial()).await {
                    Ok(Ok(stream)) => {
                        tracing::info!(target: "bastion", address = self.address, path = self.key_hash, "connected");
                        let ended = server::serve_http2(stream, Arc::clone(&witness), watcher, None).await;
                        Some(ended.map_err(|error| error.to_string()))
                    }
                    Ok(Err(error)) => Some(Err(error.to_string())),
                    Err(_) => None,
                }
            };
            let started = tokio::time::Instant::now();
            let mut serving = std::pin::pin!(serving);
            let ended = tokio::select! {
                ended = &mut serving => ended,
                _ = stop.changed() => {
                    // Answers in flight are finished; `serving` ends when the connection does.
                    let finish = async { tokio::join!(graceful.shutdown(), serving) };
                    let _ = tokio::time::timeout(server::DRAIN_TIME, finish).await;
                    return;
                }
            };
            let reason = match ended {
                Some(Ok(())) => "the bastion closed the connection".to_owned(),
                Some(Err(error)) => error,
                None => "it did not answer in time".to_owned(),
            };
            // A connection that lasted was no failure.
            pause = if started.elapsed() > PAUSE_MAX { PAUSE } else { (pause * 2).min(PAUSE_MAX) };
            tracing::warn!(target: "bastion", address = self.address, reason, ?pause, "not connected; dialling again");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stop.changed() => return,
            }
        }
    }

    async fn dial(&self) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(Arc::clone(&self.config)).connect(self.name.clone(), stream).await
    }
}

fn roots(authorities: Option<&Path>) -> Result<RootCertStore, BastionError> {
    let mut store = RootCertStore::empty();
    if let Some(path) = authorities {
        let unreadable =
            |reason: String| BastionError::Authorities { path: path.display().to_string(), reason };
        for certificate in
            CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?
        {
            store.add(certificate.map_err(|error| unreadable(error.to_string()))?)?;
        }
        return Ok(store);
    }
    let found = rustls_native_certs::load_native_certs();
    store.add_parsable_certificates(found.certs);
    Ok(store)
}

/// The client certificate, offered whatever authorities the bastion names: it knows keys, not issuers.
#[derive(Debug)]
struct Identity(Arc<CertifiedKey>);

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        schemes.contains(&SignatureScheme::ED25519).then(|| Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn identity(key: &SignerKey) -> Result<CertifiedKey, BastionError> {
    let seed = key.seed();
    // PKCS #8, version 1 (RFC 8410, section 7): version, algorithm 1.3.101.112, the seed.
    let mut pkcs8 = Zeroizing::new(hex_literal(PKCS8_HEAD));
    pkcs8.extend_from_slice(seed.as_slice());
    let signer = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8.as_slice()))?;
    let certificate = certificate(&key.verifier().public_key(), &*signer)?;
    Ok(CertifiedKey::new(vec![certificate.into()], signer))
}

const PKCS8_HEAD: &str = "302e020100300506032b657004220420";
/// `SEQUENCE { OBJECT IDENTIFIER 1.3.101.112 }`: Ed25519.
const ED25519: &str = "300506032b6570";
/// `SEQUENCE { SET { SEQUENCE { OBJECT IDENTIFIER commonName, UTF8String "runseal-witness" } } }`.
const NAME: &str = "301a3118301606035504030c0f72756e7365616c2d7769746e657373";
/// 2000-01-01 to 9999-12-31: the bastion looks at the key, not at the dates.
const VALIDITY: &str = "3020170d3030303130313030303030305a180f39393939313233313233353935395a";
/// `[0] { INTEGER 2 }`, version 3, and `INTEGER 1`, the serial number.
const VERSION_AND_SERIAL: &str = "a003020102020101";

/// A self-signed X.509 certificate (RFC 5280) of an Ed25519 key.
fn certificate(public_key: &[u8], signer: &dyn SigningKey) -> Result<Vec<u8>, BastionError> {
    let mut key_info = hex_literal(ED25519);
    key_info.extend(der(0x03, &[&[0], public_key].concat()));
    let body = [
        hex_literal(VERSION_AND_SERIAL),
        hex_literal(ED25519),
        hex_literal(NAME),
        hex_literal(VALIDITY),
        hex_literal(NAME),
        der(0x30, &key_info),
    ]
    .concat();
    let body = der(0x30, &body);
    let signer = signer.choose_scheme(&[SignatureScheme::ED25519]).ok_or(BastionError::NoKey)?;
    let signature = signer.sign(&body)?;
    let signature = der(0x03, &[&[0], signature.as_slice()].concat());
    Ok(der(0x30, &[body, hex_literal(ED25519), signature].concat()))
}

/// One DER value with its tag and length, below 65,536 bytes.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).expect("a certificate of one key is a few hundred bytes");
    let [high, low] = length.to_be_bytes();
    let mut value = match length {
        0..128 => vec![tag, low],
        128..256 => vec![tag, 0x81, low],
        _ => vec![tag, 0x82, high, low],
    };
    value.extend_from_slice(content);
    value
}

fn hex_literal(digits: &str) -> Vec<u8> {
    hex::decode(digits).expect("a literal of hex digits")
}
