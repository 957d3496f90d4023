//! A certificate authority, for servers and clients.

use std::path::Path;

use openssl::asn1::Asn1Time;
use openssl::bn::{BigNum, MsbOption};
use openssl::ec::{EcGroup, EcKey};
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Name, X509NameBuilder};

/// An authority with a key of its own.
pub struct Authority {
    certificate: X509,
    key: PKey<Private>,
}

fn new_key() -> PKey<Private> {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap()
}

fn named(name: &str) -> X509Name {
    let mut builder = X509NameBuilder::new().unwrap();
    builder.append_entry_by_nid(Nid::COMMONNAME, name).unwrap();
    builder.build()
}

/// A certificate valid for a day, without extensions and signature.
fn unsigned(name: &str, key: &PKey<Private>, issuer: &X509Name) -> X509Builder {
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    let mut serial = BigNum::new().unwrap();
    serial.rand(120, MsbOption::ONE, false).unwrap();
    builder.set_serial_number(&serial.to_asn1_integer().unwrap()).unwrap();
    builder.set_subject_name(&named(name)).unwrap();
    builder.set_issuer_name(issuer).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    builder.set_pubkey(key).unwrap();
    builder
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = new_key();
        let mut builder = unsigned(name, &key, &named(name));
        let mark = BasicConstraints::new().critical().ca().build().unwrap();
        builder.append_extension(mark).unwrap();
        builder.sign(&key, MessageDigest::sha256()).unwrap();
        Self { certificate: builder.build(), key }
    }

    /// Its own certificate.
    pub fn pem(&self) -> Vec<u8> {
        self.certificate.to_pem().unwrap()
    }

    /// A certificate for addresses and names, and its key.
    pub fn sign(&self, hosts: &[&str]) -> (Vec<u8>, Vec<u8>) {
        let key = new_key();
        let issuer = self.certificate.subject_name().to_owned().unwrap();
        let mut builder = unsigned(hosts[0], &key, &issuer);
        let mut names = SubjectAlternativeName::new();
        let context = builder.x509v3_context(Some(&self.certificate), None);
        for host in hosts {
            let is_address = host.parse::<std::net::IpAddr>().is_ok();
            if is_address {
                names.ip(host)
            } else {
                names.dns(host)
            };
        }
        let names = names.build(&context).unwrap();
        builder.append_extension(names).unwrap();
        builder.sign(&self.key, MessageDigest::sha256()).unwrap();
        (builder.build().to_pem().unwrap(), key.private_key_to_pem_pkcs8().unwrap())
    }

    /// Writes the files that make a test server accept TLS only, into its folder.
    pub fn equip(&self, server: &Path, hosts: &[&str]) {
        let folder = server.join("tls");
        std::fs::create_dir_all(&folder).unwrap();
        let (certificate, key) = self.sign(hosts);
        std::fs::write(folder.join("server.pem"), [key, certificate].concat()).unwrap();
        std::fs::write(folder.join("ca.pem"), self.pem()).unwrap();
    }
}
