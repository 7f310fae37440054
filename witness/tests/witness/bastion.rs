//! Serving through a bastion: this side of c2sp.org/https-bastion against one written here.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::authority::{Authority, Identity};
use crate::place::{Place, log_of};
use crate::testlog::{cosignature_time, sha256, unbase64};

/// Takes any client certificate whose key made the handshake's signature: a bastion looks at the key.
#[derive(Debug)]
struct AnyKey(rustls::crypto::WebPkiSupportedAlgorithms);

impl ClientCertVerifier for AnyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("a bastion speaks TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

/// A bastion's listener: TLS 1.3, `bastion/0`, and a client certificate.
struct Bastion {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl Bastion {
    async fn of((certificates, key): Identity) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Arc::new(AnyKey(provider.signature_verification_algorithms));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificates, key)
            .unwrap();
        config.alpn_protocols = vec![b"bastion/0".to_vec()];
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { listener, acceptor: Arc::new(config).into() }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    /// The next backend that dials in.
    async fn accept(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let (stream, _) = self.listener.accept().await.unwrap();
        self.acceptor.accept(stream).await
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_mins(1), future).await.unwrap() })
}

#[test]
fn a_witness_answers_through_a_bastion_that_a_trusted_authority_vouches_for() {
    let authority = Authority::new("authority");
    let log = log_of(4);
    let place = Place::following(&log);
    place.write("authority.pem", &authority.pem);
    block_on(async {
        let bastion = Bastion::of(authority.vouch_for("127.0.0.1")).await;
        let address = bastion.address().to_string();
        let through = ["--bastion", &address, "--bastion-ca", "authority.pem"];
        let running = place.serving().logs("logs").with(&through).start();
        let backend = bastion.accept().await.unwrap();
        let vkey = place.vkey();
        // The certificate is of the witness's own key, by whose hash the bastion names it.
        let public = &unbase64(vkey.splitn(3, '+').nth(2).unwrap())[1..];
        let shown = backend.get_ref().1.peer_certificates().unwrap();
        assert!(shown[0].windows(32).any(|window| window == public));
        let connected = running.wait_for("connected");
        assert!(connected.contains(&hex::encode(sha256(&[public]))), "{connected}");

        let (mut send, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(backend)).await.unwrap();
        tokio::spawn(connection);
        for (old, new) in [(0, 2), (2, 4)] {
            let request = hyper::Request::post("https://witness.example/add-checkpoint")
                .body(Full::new(bytes::Bytes::from(log.request(old, new))))
                .unwrap();
            let answer = send.send_request(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            let lines = answer.into_body().collect().await.unwrap().to_bytes();
            let lines = std::str::from_utf8(&lines).unwrap();
            assert!(cosignature_time(&log.text(new), lines, &vkey).is_some(), "{lines}");
        }
        drop(send);
        // A connection that ends is made again.
        bastion.accept().await.unwrap();
        assert_eq!(running.stop(), 0);
    });
    assert_eq!(place.logs()[0].size, 4);
}

#[test]
fn a_bastion_without_a_good_certificate_is_not_served() {
    let authority = Authority::new("authority");
    let place = Place::following(&log_of(1));
    place.write("authority.pem", &authority.pem);
    for (why, identity) in authority.not_good() {
        block_on(async {
            let bastion = Bastion::of(identity).await;
            let address = bastion.address().to_string();
            let through = ["--bastion", &address, "--bastion-ca", "authority.pem"];
            let running = place.serving().logs("logs").with(&through).start();
            assert!(bastion.accept().await.is_err(), "{why}: the handshake was finished");
            let said = running.wait_for("not connected");
            assert!(said.contains(why), "{why}: {said}");
            assert_eq!(running.stop(), 0);
        });
    }
}
