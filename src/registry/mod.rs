//! A client of a Confluent-compatible schema registry: what the id of a schema means, and what id a
//! schema has.
//!
//! | module | content |
//! |---|---|
//! | `url` | where the registry is, and how it is asked to let us in |

#[cfg(test)]
pub(crate) mod fixture;
mod url;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

pub(crate) use self::url::{Credentials, RegistryUrl};
use crate::model::schema::{SchemaId, SchemaReference, SchemaSource, SchemaVerdict};
use crate::source::{MAX_REFERENCES, MAX_SCHEMA_BYTES};
use crate::web::{self, Client, ClientOptions, Response};

/// The types of responses of the API.
const ACCEPT: &str = "application/vnd.schemaregistry.v1+json, application/json";

/// The type of what is sent.
const CONTENT_TYPE: &str = "application/vnd.schemaregistry.v1+json";

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Error codes of the registry's API: there is no such schema, subject or version.
const NOT_FOUND: [u32; 3] = [40_403, 40_401, 40_402];

/// The registry does not answer, or not as a registry does. Another attempt may help.
#[derive(Debug, thiserror::Error)]
#[error("the schema registry `{url}` {problem}")]
pub struct RegistryError {
    /// URL of the registry.
    url: String,
    /// What failed, and what to do.
    problem: String,
    is_refusal: bool,
}

impl RegistryError {
    /// Whether the registry refuses what it was sent: another attempt does not help.
    #[must_use]
    pub(crate) fn is_refusal(&self) -> bool {
        self.is_refusal
    }
}

/// A schema registry.
pub struct Registry {
    client: Client,
}

/// The answer about an id or a version.
#[derive(Deserialize)]
struct SchemaAnswer {
    schema: String,
    #[serde(rename = "schemaType", default = "avro")]
    kind: String,
    #[serde(default)]
    references: Vec<Reference>,
}

fn avro() -> String {
    "AVRO".to_owned()
}

#[derive(Clone, Deserialize)]
struct Reference {
    name: String,
    subject: String,
    version: i64,
}

#[derive(Deserialize)]
struct RegistryProblem {
    error_code: u32,
    #[serde(default)]
    message: String,
}

/// The answer about a schema.
#[derive(Deserialize)]
struct Registered {
    id: u32,
}

impl Registry {
    /// A client of the registry at a URL.
    ///
    /// # Errors
    /// The URL needs TLS, which cannot be set up.
    pub fn new(url: RegistryUrl, credentials: Option<Credentials>) -> Result<Self, String> {
        Self::within(url, credentials, TIMEOUT)
    }

    /// [`Registry::new`] with another time limit of a request.
    fn within(
        url: RegistryUrl,
        credentials: Option<Credentials>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let authorization = credentials.map(|it| it.0);
        let options = ClientOptions { authorities: None, authorization, accept: ACCEPT, timeout };
        Ok(Self { client: Client::new(url.0, options)? })
    }

    /// What the registry says of an id, with all references resolved.
    ///
    /// # Errors
    /// The registry does not answer, or denies access.
    pub async fn verdict(&self, id: SchemaId) -> Result<SchemaVerdict, RegistryError> {
        let path = match id {
            SchemaId::Number(number) => format!("/schemas/ids/{number}"),
            SchemaId::Guid(guid) => format!("/schemas/guids/{guid}"),
        };
        let Some(answer) = self.request::<SchemaAnswer>(&path, None).await? else {
            return Ok(SchemaVerdict::Unknown);
        };
        let SchemaAnswer { schema, kind, references } = answer;
        Ok(match self.resolve(schema.len(), references).await? {
            Ok(references) => {
                SchemaVerdict::Known { kind, source: SchemaSource { text: schema, references } }
            }
            Err(problem) => SchemaVerdict::Unusable { problem },
        })
    }

    /// Reads all schemas that references lead to. A problem that another attempt would meet again
    /// is part of the verdict.
    async fn resolve(
        &self,
        mut bytes: usize,
        references: Vec<Reference>,
    ) -> Result<Result<Vec<SchemaReference>, String>, RegistryError> {
        let mut open: VecDeque<Reference> = references.into();
        // By name, with what each refers to itself.
        let mut found: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
        while let Some(Reference { name, subject, version }) = open.pop_front() {
            if bytes > MAX_SCHEMA_BYTES {
                break;
            }
            if found.contains_key(&name) {
                continue;
            }
            if found.len() == MAX_REFERENCES {
                return Ok(Err(format!("it refers to more than {MAX_REFERENCES} schemas")));
            }
            let subject = web::encoded(&subject);
            // A schema that was deleted softly still decides the records written by it.
            let path = format!("/subjects/{subject}/versions/{version}?deleted=true");
            let Some(answer) = self.request::<SchemaAnswer>(&path, None).await? else {
                let problem = format!(
                    "it refers to `{name}`, version {version} of subject `{subject}`, which the \
                     registry did not have"
                );
                return Ok(Err(problem));
            };
            bytes += answer.schema.len();
            let names = answer.references.iter().map(|reference| reference.name.clone()).collect();
            open.extend(answer.references);
            found.insert(name, (answer.schema, names));
        }
        if bytes > MAX_SCHEMA_BYTES {
            let problem = format!("with what it refers to, it exceeds {MAX_SCHEMA_BYTES} bytes");
            return Ok(Err(problem));
        }
        Ok(Ok(in_order(found)))
    }

    /// The id of an Avro schema in a subject, in which it is registered if it is not yet.
    ///
    /// # Errors
    /// The registry does not answer, denies access, or [refuses](RegistryError::is_refusal) the
    /// schema.
    pub(crate) async fn register(&self, subject: &str, schema: &str) -> Result<u32, RegistryError> {
        let path = format!("/subjects/{}", web::encoded(subject));
        let versions = format!("{path}/versions");
        let body = json!({"schema": schema, "schemaType": avro()}).to_string();
        let look_up = || self.request::<Registered>(&path, Some(body.clone()));
        // An account that may only read finds a schema that is registered.
        if let Some(Registered { id }) = look_up().await? {
            return Ok(id);
        }
        let registered = match self.request(&versions, Some(body.clone())).await {
            // Another instance may have registered it meanwhile: some registries refuse the second.
            Err(error) if error.is_refusal() => Some(look_up().await?.ok_or(error)?),
            registered => registered?,
        };
        registered.map(|Registered { id }| id).ok_or_else(|| {
            self.failed(format!("answered {versions} with status 404: check schema_registry"))
        })
    }

    fn failed(&self, problem: String) -> RegistryError {
        RegistryError { url: self.client.url().to_string(), problem, is_refusal: false }
    }

    /// Requests a path, or sends a body there; `None` if the registry says that it does not exist.
    async fn request<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Option<String>,
    ) -> Result<Option<T>, RegistryError> {
        let failed = |problem| self.failed(problem);
        let response = match body {
            Some(body) => self.client.post(path, CONTENT_TYPE, body).await,
            None => self.client.get(path).await,
        };
        let Response { status, body } = response.map_err(failed)?;
        let problem = || serde_json::from_slice::<RegistryProblem>(&body).ok();
        let is_unknown = || problem().is_some_and(|it| NOT_FOUND.contains(&it.error_code));
        match status {
            200 => serde_json::from_slice(&body).map(Some).map_err(|error| {
                failed(format!("answered {path} with something that is not a schema: {error}"))
            }),
            404 if is_unknown() => Ok(None),
            // The schema is not compatible with the one before, or not valid.
            409 | 422 => {
                let message = problem().map(|it| it.message).unwrap_or_default();
                let problem = format!("refuses {path} with status {status}: {message}");
                Err(RegistryError { is_refusal: true, ..failed(problem) })
            }
            401 | 403 => {
                Err(failed(format!("denied access ({status}): check schema_registry_auth_file")))
            }
            // A proxy does not know the schema either, but must not decide.
            _ => {
                Err(failed(format!("answered {path} with status {status}: check schema_registry")))
            }
        }
    }
}

/// Each schema after those that it refers to. In a circle, which Avro and protobuf exclude, the
/// order is that of the names.
fn in_order(mut found: BTreeMap<String, (String, Vec<String>)>) -> Vec<SchemaReference> {
    let mut ordered = Vec::with_capacity(found.len());
    while !found.is_empty() {
        let is_free =
            |(_, names): &(String, Vec<String>)| names.iter().all(|name| !found.contains_key(name));
        let next = found.iter().find(|(_, entry)| is_free(entry)).or(found.iter().next());
        let Some(name) = next.map(|(name, _)| name.clone()) else { break };
        if let Some((text, _)) = found.remove(&name) {
            ordered.push(SchemaReference { name, text });
        }
    }
    ordered
}

#[cfg(test)]
mod tests;
