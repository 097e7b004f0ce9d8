//! The provider of the routed RPC: a program that is connected to one node and writes a person for each call.

use std::time::Duration;

use node::{Call, Client};
use store::client::ClientConfig;
use store::protocol::RequestBody;
use workload::{ADD_PERSON, Cars, Layout, PEOPLE, container, person};

use super::nodes::Nodes;

/// One write of a person.
const WRITE: Duration = Duration::from_secs(5);

/// Offers `add-person` for all people, until it is dropped.
pub(super) struct Provider {
    _client: Client,
}

impl Provider {
    /// At this node; returns when every node knows of it.
    pub fn start(nodes: &Nodes, at: usize) -> Result<Self, String> {
        let config = ClientConfig { go_to_leader: false, ..ClientConfig::default() };
        let (client, writer) = (nodes.client(&[at], config.clone())?, nodes.client(&[at], config)?);
        let path = container(PEOPLE).path;
        let offers = vec![(ADD_PERSON.to_owned(), Some(path))];
        let served = client.serve(offers, nodes.patience(), move |call| add_person(&writer, &call));
        served.map_err(|error| format!("offering {ADD_PERSON}: {error}"))?;
        nodes.wait("the offer has not reached every node", |nodes| {
            let knows = |number: usize| {
                let status = nodes.status(number)?;
                let known = status.offers.values().flatten().any(|(name, _)| name == ADD_PERSON);
                known.then_some(())
            };
            nodes.running().into_iter().try_for_each(knows)
        })?;
        Ok(Self { _client: client })
    }
}

/// Writes the person whose number the input begins with; its bytes are the person's.
fn add_person(writer: &Client, call: &Call) -> Result<Vec<u8>, String> {
    let number = Cars::numbered(0).number(&call.input).ok_or("the input has no number of a person")?;
    let change = tree::Change::Put { at: person(number), value: call.input.as_slice().into() };
    let write = RequestBody::Write(tree::Transaction::of(change));
    writer.request(write, WRITE).map(|_| Vec::new()).map_err(|error| error.to_string())
}
