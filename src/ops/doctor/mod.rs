//! Checks whether a store, its log and this machine are in order. Changes nothing.

mod brokers;
mod machine;
mod store;

use serde::Serialize;

use super::NoResult;
use crate::model::named::named;
use crate::settings::Settings;
use crate::store::SideTables;
use crate::store::StoreUrlError;
use crate::telemetry::clock_ms;

named! {
    /// Result of a check, by severity.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    CheckState {
        /// In order.
        Ok = "ok",
        /// Works, with a risk.
        Warn = "warn",
        /// Does not work.
        Fail = "fail",
    }
}

/// Result of one check. Others parse it as JSON: names and order are fixed.
#[derive(Clone, Debug, Serialize)]
pub struct CheckResult {
    /// Name of the check; several results may share it.
    pub check: &'static str,
    /// In order, at risk, or failed.
    pub state: CheckState,
    /// What was found.
    pub detail: String,
    /// What helps; `None` if nothing has to, or `detail` says it.
    pub fix: Option<String>,
}

impl CheckResult {
    fn ok(check: &'static str, detail: impl Into<String>) -> Self {
        Self { check, state: CheckState::Ok, detail: detail.into(), fix: None }
    }

    fn warn(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, state: CheckState::Warn, detail: detail.into(), fix: Some(fix.into()) }
    }

    fn fail(check: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { check, state: CheckState::Fail, detail: detail.into(), fix: Some(fix.into()) }
    }

    /// A check that could not run. Its error names the next step.
    fn failed(check: &'static str, error: &anyhow::Error) -> Self {
        let lines = format!("{error:#}");
        let words: Vec<_> = lines.split_whitespace().collect();
        Self { check, state: CheckState::Fail, detail: words.join(" "), fix: None }
    }
}

/// Runs all checks; `is_deep`: of every row. A store or a log that cannot be opened is a result as
/// well.
///
/// # Errors
/// The URL of the store is not valid.
pub async fn check(settings: &Settings, is_deep: bool) -> Result<Vec<CheckResult>, StoreUrlError> {
    let mut results = Vec::new();
    if let Some(path) = settings.url()?.path() {
        results.extend(machine::check_file(path));
    }
    let store = match settings.reader().await {
        Ok(store) => store,
        Err(error) => {
            results.push(CheckResult::failed("store", &error));
            return Ok(results);
        }
    };
    results.push(CheckResult::ok("store", format!("`{}` answers", settings.store)));
    results.extend(store::check(&store, clock_ms, is_deep).await);
    match store.epochs().await {
        Err(error) => results.push(CheckResult::failed("epoch", &error.into())),
        Ok(epochs) => match epochs.last() {
            None => results.push(CheckResult::ok("log", "files: no topic was read")),
            Some(newest) => {
                results.push(machine::check_clock(newest, settings.now_ms));
                results.extend(brokers::check(&store, newest, settings).await);
            }
        },
    }
    Ok(results)
}

/// Whether no check failed.
///
/// # Errors
/// [`NoResult`] with the numbers of failures and warnings.
pub fn verdict(results: &[CheckResult]) -> Result<(), NoResult> {
    let count = |state| results.iter().filter(|result| result.state == state).count();
    match (count(CheckState::Fail), count(CheckState::Warn)) {
        (0, _) => Ok(()),
        (failed, warnings) => Err(NoResult(format!("{failed} checks failed, {warnings} warned"))),
    }
}
