//! Encryption, and whom to believe.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Checks the server's certificate and its name against the certificates in `roots`, or the system's.
pub(crate) fn connector(roots: Option<&Path>) -> Result<MakeRustlsConnect, String> {
    let mut trusted = RootCertStore::empty();
    match roots {
        Some(file) => {
            let text = fs::read(file).map_err(|error| {
                format!(
                    "`sslrootcert`: `{}` cannot be read: {error}",
                    file.display()
                )
            })?;
            for certificate in CertificateDer::pem_slice_iter(&text) {
                let added =
                    certificate
                        .map_err(|error| format!("{error:?}"))
                        .and_then(|certificate| {
                            trusted.add(certificate).map_err(|error| error.to_string())
                        });
                added.map_err(|error| {
                    format!(
                        "`sslrootcert`: `{}` holds no usable certificate in PEM: {error}",
                        file.display()
                    )
                })?;
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            // Systems carry certificates that are out of date or odd; those that can be used are enough.
            trusted.add_parsable_certificates(found.certs);
        }
    }
    if trusted.is_empty() {
        return Err(
            "there is no certificate to verify the server with: name one with `sslrootcert`, or install the system's (Debian: ca-certificates)"
                .to_owned(),
        );
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(trusted)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}
