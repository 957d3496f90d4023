//! Where a request was made: by a page of this server, of another origin, or by no page at all.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};

use super::problem::Problem;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default().trim())
}

/// Whether a page of this server made the request; `None` where no page did, or its browser does
/// not tell.
///
/// Browsers alone set `Sec-Fetch-Site`, and only where they trust the connection; `Origin` says
/// the same of every request but a read, where a proxy keeps `Host`.
fn is_same(headers: &HeaderMap) -> Option<bool> {
    if let Some(site) = text(headers, FETCH_SITE) {
        return Some(site == "same-origin");
    }
    let origin = text(headers, header::ORIGIN)?;
    let host = text(headers, header::HOST)?;
    let (_, authority) = origin.split_once("://")?;
    Some(authority.eq_ignore_ascii_case(host))
}

fn foreign(detail: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "foreign_origin", detail)
}

/// Rejects a request that a page of another origin makes.
pub fn reject_foreign(headers: &HeaderMap) -> Result<(), Problem> {
    let is_told = headers.contains_key(FETCH_SITE) || headers.contains_key(header::ORIGIN);
    match is_same(headers) {
        Some(true) => Ok(()),
        None if !is_told => Ok(()),
        _ => Err(foreign("a page of another origin may not do this")),
    }
}

/// Rejects a request unless a page of this server makes it.
pub fn require_same(headers: &HeaderMap) -> Result<(), Problem> {
    match is_same(headers) {
        Some(true) => Ok(()),
        _ => Err(foreign(
            "with a login, only the page of this server may do this; programs send \
             `Authorization: Bearer TOKEN`",
        )),
    }
}

/// Whether the client came by TLS, which a proxy took off. Whoever says so in vain loses its own
/// cookie and nothing else, so there is no need to know whom to trust.
pub fn is_secure(headers: &HeaderMap) -> bool {
    let is_https = |text: &str| text.get(..8).is_some_and(|it| it.eq_ignore_ascii_case("https://"));
    let first = |text: &str| text.split(',').next().unwrap_or_default().trim().to_owned();
    text(headers, header::ORIGIN).is_some_and(is_https)
        || text(headers, FORWARDED_PROTO).is_some_and(|it| first(it).eq_ignore_ascii_case("https"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let host = ("host", "maps.example.com:8443");
        let told = |origin| is_same(&headers(&[host, ("origin", origin)]));
        assert_eq!(told("https://maps.example.com:8443"), Some(true));
        assert_eq!(told("https://MAPS.example.com:8443"), Some(true));
        for other in ["https://maps.example.com", "https://x.maps.example.com:8443", "https://"] {
            assert_eq!(told(other), Some(false), "{other}");
        }
        // A page in a sandbox, or a broken header: it is told that there is a page, and no more.
        for odd in ["null", ""] {
            assert_eq!(told(odd), None);
            reject_foreign(&headers(&[host, ("origin", odd)])).unwrap_err();
            require_same(&headers(&[host, ("origin", odd)])).unwrap_err();
        }
        assert_eq!(is_same(&headers(&[("origin", "https://a")])), None);
    }

    #[test]
    fn what_the_browser_says_of_the_site_decides() {
        let proxied = [("host", "127.0.0.1:8080"), ("origin", "https://maps.example.com")];
        reject_foreign(&headers(&proxied)).unwrap_err();
        for (site, is_fine) in
            [("same-origin", true), ("same-site", false), ("cross-site", false), ("none", false)]
        {
            let headers = headers(&[&proxied[..], &[("sec-fetch-site", site)]].concat());
            assert_eq!(reject_foreign(&headers).is_ok(), is_fine, "{site}");
            assert_eq!(require_same(&headers).is_ok(), is_fine, "{site}");
        }
        reject_foreign(&headers(&[("host", "a")])).unwrap();
        require_same(&headers(&[("host", "a")])).unwrap_err();
    }

    #[test]
    fn tls_is_told_by_the_origin_or_a_proxy() {
        for secure in [("origin", "https://a"), ("x-forwarded-proto", "HTTPS, http")] {
            assert!(is_secure(&headers(&[secure])), "{secure:?}");
        }
        for plain in [("origin", "http://a"), ("x-forwarded-proto", "http, https"), ("host", "a")] {
            assert!(!is_secure(&headers(&[plain])), "{plain:?}");
        }
    }
}
