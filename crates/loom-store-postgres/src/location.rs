//! Where a store is.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// Where a store is: a server, a database, and a schema in it, as a URL.
///
/// `postgres://USER:PASSWORD@HOST:PORT/DATABASE?schema=SCHEMA`, with what else libpq's URLs may say that concerns the
/// connection (several hosts, `target_session_attrs`, `connect_timeout`, `keepalives…`, `application_name`, a folder of
/// sockets as `host`), and:
///
/// - `schema`: where the tables are; `loom` without it. 1 to 63 bytes.
/// - `sslmode`: `disable`, or `verify-full`, which checks the certificate and its name. `require` and `verify-ca` are
///   taken as `verify-full`; `allow` and `prefer` are refused, since they end in plain text when somebody is in the way.
///   Without it the connection is verified, unless all hosts are sockets or addresses of this machine (`localhost`,
///   `127.0.0.0/8`, `::1`): those are used in plain text.
/// - `sslrootcert`: a file of certificates in PEM that vouch for the server, instead of those of the system.
///
/// Neither `Display` nor `Debug` shows the password.
///
/// ```
/// use loom_store_postgres::Location;
///
/// let location: Location = "postgres://loom:secret@db.example:5433/events?schema=orders".parse()?;
/// assert_eq!(location.to_string(), "postgres://loom@db.example:5433/events?schema=orders");
/// assert_eq!(location.schema(), "orders");
/// # Ok::<(), loom_store_postgres::InvalidLocation>(())
/// ```
#[derive(Clone, PartialEq)]
pub struct Location {
    config: Config,
    shown: String,
    schema: String,
    root_certificates: Option<PathBuf>,
}

/// Why a URL is none of a store. Never repeats it: it may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InvalidLocation {
    reason: String,
}

/// What the URL looks like, for messages.
const FORM: &str = "`postgres://USER@HOST:PORT/DATABASE?schema=SCHEMA`";

/// Where the tables are, if the URL does not say.
const DEFAULT_SCHEMA: &str = "loom";

impl FromStr for Location {
    type Err = InvalidLocation;

    fn from_str(text: &str) -> Result<Self, InvalidLocation> {
        let rest = text
            .strip_prefix("postgres://")
            .or_else(|| text.strip_prefix("postgresql://"))
            .ok_or_else(|| invalid(format!("expected a url, {FORM}")))?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        if place
            .split_once('/')
            .is_some_and(|(_, path)| path.contains('@'))
        {
            // The driver looks for the last `@`, others for the first `/`: they would not agree on what the password is.
            return Err(invalid(
                "special characters of the user and the password, `/` and `@` among them, have to be percent-encoded",
            ));
        }
        let mut own = OwnParameters::default();
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if pair
                .split('=')
                .next()
                .is_some_and(|name| name.contains('%'))
            {
                return Err(invalid(
                    "the names of parameters have to be written without percent-encoding",
                ));
            }
            if !own.take(pair)? {
                others.push(pair);
            }
        }
        let mut url = format!("postgres://{place}");
        if !others.is_empty() {
            url.push('?');
            url.push_str(&others.join("&"));
        }
        let mut config = Config::from_str(&url).map_err(|error| {
            // Its cause names a parameter or its value, and the value may be a password in the wrong place.
            drop(error);
            invalid(format!(
                "the url cannot be read: expected {FORM}, with special characters of the user and the password percent-encoded"
            ))
        })?;
        if config.get_hosts().is_empty() {
            return Err(invalid(format!("the url names no host: expected {FORM}")));
        }
        if config.get_dbname().is_none_or(str::is_empty) {
            return Err(invalid(format!(
                "the url names no database: expected {FORM}"
            )));
        }
        let plain = match own.ssl_mode.as_deref() {
            Some("disable") => true,
            Some("require" | "verify-ca" | "verify-full") => false,
            None => config.get_hosts().iter().all(is_this_machine),
            Some(_) => {
                return Err(invalid(
                    "`sslmode` has to be `verify-full` or `disable`: the others do without encryption when somebody is in the way",
                ));
            }
        };
        config.ssl_mode(if plain {
            SslMode::Disable
        } else {
            SslMode::Require
        });
        let schema = own.schema.unwrap_or_else(|| DEFAULT_SCHEMA.to_owned());
        if schema.is_empty() || schema.len() > 63 || schema.contains(char::is_control) {
            return Err(invalid("`schema` has to be a name of 1 to 63 bytes"));
        }
        let shown = without_password(place, query);
        Ok(Self {
            config,
            shown,
            schema,
            root_certificates: own.root_certificates.map(PathBuf::from),
        })
    }
}

impl Location {
    /// The schema that holds the tables.
    #[must_use]
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// Whether the URL holds a password.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// Sets the password. It is never shown.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.config.password(password);
        self
    }

    /// Server, database and schema, however they are reached: equal for two locations of one store, as far as the names
    /// of servers tell.
    #[must_use]
    pub fn place(&self) -> String {
        let hosts = self.config.get_hosts();
        let ports = self.config.get_ports();
        let hosts: Vec<String> = (0..)
            .zip(hosts)
            .map(|(index, host)| {
                let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
                match host {
                    Host::Tcp(name) => format!("{}:{port}", name.to_ascii_lowercase()),
                    Host::Unix(folder) => format!("{}:{port}", folder.display()),
                }
            })
            .collect();
        let database = self.config.get_dbname().unwrap_or_default();
        format!("{}/{database}/{}", hosts.join(","), self.schema)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn root_certificates(&self) -> Option<&Path> {
        self.root_certificates.as_deref()
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.config.get_ssl_mode() != SslMode::Disable
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Location({})", self.shown)
    }
}

/// The parameters that the driver does not know, or knows otherwise.
#[derive(Default)]
struct OwnParameters {
    schema: Option<String>,
    ssl_mode: Option<String>,
    root_certificates: Option<String>,
}

impl OwnParameters {
    /// Takes `name=value` if it is one of them.
    fn take(&mut self, pair: &str) -> Result<bool, InvalidLocation> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let place = match name {
            "schema" => &mut self.schema,
            "sslmode" => &mut self.ssl_mode,
            "sslrootcert" => &mut self.root_certificates,
            _ => return Ok(false),
        };
        let value = percent_decoded(value)
            .ok_or_else(|| invalid(format!("`{name}` is not percent-encoded UTF-8")))?;
        if place.replace(value).is_some() {
            return Err(invalid(format!("`{name}` stands in the url twice")));
        }
        Ok(true)
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let high = char::from(bytes.next()?).to_digit(16)?;
            let low = char::from(bytes.next()?).to_digit(16)?;
            u8::try_from(high * 16 + low).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(decoded).ok()
}

/// The URL with everything that may be a secret left out.
fn without_password(place: &str, query: &str) -> String {
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let (user, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (login.split(':').next().unwrap_or_default(), hosts),
        None => ("", authority),
    };
    let at = if user.is_empty() { "" } else { "@" };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.is_empty() && pair.split('=').next() != Some("password"))
        .collect();
    let mark = if kept.is_empty() { "" } else { "?" };
    format!(
        "postgres://{user}{at}{hosts}/{path}{mark}{}",
        kept.join("&")
    )
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name.eq_ignore_ascii_case("localhost")
                || name
                    .parse()
                    .is_ok_and(|address: IpAddr| address.is_loopback())
        }
    }
}

fn invalid(reason: impl Into<String>) -> InvalidLocation {
    InvalidLocation {
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Location {
        url.parse().unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    #[test]
    fn what_does_not_stay_on_this_machine_is_verified_unless_it_says_otherwise() {
        for (url, encrypted) in [
            ("postgres://h/d", true),
            ("postgres://10.0.0.1/d", true),
            ("postgres://localhost,h/d", true),
            ("postgres://h/d?sslmode=require", true),
            ("postgres://h/d?sslmode=verify-ca", true),
            ("postgres://localhost/d?sslmode=verify-full", true),
            ("postgres://h/d?sslmode=disable", false),
            ("postgres://localhost/d", false),
            ("postgres://127.0.0.2:99/d", false),
            ("postgres://%2Frun%2Fpostgresql/d", false),
        ] {
            assert_eq!(parse(url).is_encrypted(), encrypted, "{url}");
        }
    }

    #[test]
    fn a_mode_that_may_end_in_plain_text_is_refused() {
        for mode in ["prefer", "allow", "", "sometimes"] {
            let refused = format!("postgres://h/d?sslmode={mode}")
                .parse::<Location>()
                .unwrap_err();
            assert!(refused.to_string().contains("verify-full"), "{refused}");
        }
    }

    #[test]
    fn no_text_of_a_location_holds_its_password() {
        for url in [
            "postgres://u:secret@h/d",
            "postgres://u:secret@h/d?schema=s",
            "postgres://u:se%40secret@h:5/d",
            "postgres://u@h/d?password=secret&schema=s",
            "postgresql://u:secret@h1:1,h2:2/d?target_session_attrs=read-write",
        ] {
            let location = parse(url);
            assert!(location.has_password());
            for text in [
                location.to_string(),
                format!("{location:?}"),
                location.place(),
            ] {
                assert!(!text.contains("secret"), "{text}");
            }
            let again = parse(&location.to_string());
            assert_eq!(again.place(), location.place());
        }
        let location = parse("postgres://u@h/d").with_password("secret");
        assert!(!format!("{location} {location:?}").contains("secret"));
    }

    #[test]
    fn a_refusal_says_what_was_expected_and_repeats_no_secret() {
        for url in [
            "mysql://u:secret@h/d",
            "postgres://u:secret@h",
            "postgres://u:secret@h/",
            "postgres://u:secret@h:port/d",
            "postgres://u:secret@h/d?secret=1",
            "postgres://u:secret@h/d?schema=",
            "postgres://u:secret@h/d?schema=a&schema=secret",
            "postgres://u:secret@h/d?schema=%zzsecret",
            "postgres://u:secret@h/d?sslmode=secret",
            "postgres://u:secret/x@h/d",
            "postgres://u:x/secret@h/d?schema=a",
            "postgres://u@h/d?pass%77ord=secret",
            "postgres:///d",
        ] {
            let refused = url.parse::<Location>().unwrap_err().to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[test]
    fn the_same_schema_of_the_same_server_is_the_same_place() {
        let place = |url| parse(url).place();
        assert_eq!(
            place("postgres://a:x@H/d"),
            place("postgres://b@h:5432/d?schema=loom")
        );
        assert_ne!(
            place("postgres://h/d"),
            place("postgres://h/d?schema=other")
        );
        assert_ne!(place("postgres://h/d"), place("postgres://h/e"));
        assert_ne!(place("postgres://h/d"), place("postgres://h:5433/d"));
    }
}
