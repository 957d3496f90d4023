//! Origin of a request: a page of this server, a page of another origin, or no page.

use axum::http::{HeaderMap, HeaderName, StatusCode, header};

use super::problem::Problem;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default().trim())
}

/// Whether a page of this server sent the request; `None` if no page did or it cannot be known.
/// `is_tls`: the server itself speaks TLS, so that its pages are `https`.
///
/// Only browsers set `Sec-Fetch-Site`, and only on connections that they trust. `Origin` is set on
/// every request other than a read; it compares to `Host` if proxies keep that header.
fn is_same_origin(headers: &HeaderMap, is_tls: bool) -> Option<bool> {
    if let Some(site) = text(headers, FETCH_SITE) {
        return Some(site == "same-origin");
    }
    let origin = text(headers, header::ORIGIN)?;
    let host = text(headers, header::HOST)?;
    let (scheme, authority) = origin.split_once("://")?;
    let is_scheme = !is_tls || scheme.eq_ignore_ascii_case("https");
    Some(is_scheme && authority.eq_ignore_ascii_case(host))
}

pub(crate) fn foreign(detail: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "foreign_origin", detail)
}

/// Rejects requests from pages of other origins.
pub(crate) fn reject_foreign(headers: &HeaderMap, is_tls: bool) -> Result<(), Problem> {
    let is_from_page = headers.contains_key(FETCH_SITE) || headers.contains_key(header::ORIGIN);
    match is_same_origin(headers, is_tls) {
        Some(true) => Ok(()),
        None if !is_from_page => Ok(()),
        _ => Err(foreign("pages of other origins may not send this request")),
    }
}

/// Rejects requests that are not from a page of this server.
pub(crate) fn require_same(headers: &HeaderMap, is_tls: bool) -> Result<(), Problem> {
    match is_same_origin(headers, is_tls) {
        Some(true) => Ok(()),
        _ => Err(foreign(
            "with a login, only the page of this server may send this request; programs send \
             `Authorization: Bearer TOKEN`",
        )),
    }
}

/// Whether the client uses TLS, which the server or a proxy terminates. The headers need no trust:
/// a client that sends false ones only loses its own cookie.
pub(crate) fn is_secure(headers: &HeaderMap, is_tls: bool) -> bool {
    let is_https = |text: &str| text.get(..8).is_some_and(|it| it.eq_ignore_ascii_case("https://"));
    let first = |text: &str| text.split(',').next().unwrap_or_default().trim().to_owned();
    is_tls
        || text(headers, header::ORIGIN).is_some_and(is_https)
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
        let is_same = |origin| is_same_origin(&headers(&[host, ("origin", origin)]), false);
        assert_eq!(is_same("https://maps.example.com:8443"), Some(true));
        assert_eq!(is_same("https://MAPS.example.com:8443"), Some(true));
        for other in ["https://maps.example.com", "https://x.maps.example.com:8443", "https://"] {
            assert_eq!(is_same(other), Some(false), "{other}");
        }
        // A sandboxed page, or a malformed header: from a page, but of an unknown origin.
        for odd in ["null", ""] {
            assert_eq!(is_same(odd), None);
            reject_foreign(&headers(&[host, ("origin", odd)]), false).unwrap_err();
            require_same(&headers(&[host, ("origin", odd)]), false).unwrap_err();
        }
        assert_eq!(is_same_origin(&headers(&[("origin", "https://a")]), false), None);
        // The pages of a server with TLS are https.
        for (origin, is_same) in
            [("https://maps.example.com:8443", true), ("http://maps.example.com:8443", false)]
        {
            assert_eq!(is_same_origin(&headers(&[host, ("origin", origin)]), true), Some(is_same));
        }
    }

    #[test]
    fn sec_fetch_site_takes_precedence_over_origin() {
        let proxied = [("host", "127.0.0.1:8080"), ("origin", "https://maps.example.com")];
        reject_foreign(&headers(&proxied), false).unwrap_err();
        for (site, is_allowed) in
            [("same-origin", true), ("same-site", false), ("cross-site", false), ("none", false)]
        {
            let headers = headers(&[&proxied[..], &[("sec-fetch-site", site)]].concat());
            assert_eq!(reject_foreign(&headers, false).is_ok(), is_allowed, "{site}");
            assert_eq!(require_same(&headers, false).is_ok(), is_allowed, "{site}");
        }
        reject_foreign(&headers(&[("host", "a")]), false).unwrap();
        require_same(&headers(&[("host", "a")]), false).unwrap_err();
    }

    #[test]
    fn tls_is_detected_by_origin_or_proxy_header() {
        for secure in [("origin", "https://a"), ("x-forwarded-proto", "HTTPS, http")] {
            assert!(is_secure(&headers(&[secure]), false), "{secure:?}");
        }
        for plain in [("origin", "http://a"), ("x-forwarded-proto", "http, https"), ("host", "a")] {
            assert!(!is_secure(&headers(&[plain]), false), "{plain:?}");
            assert!(is_secure(&headers(&[plain]), true), "{plain:?}");
        }
    }
}
