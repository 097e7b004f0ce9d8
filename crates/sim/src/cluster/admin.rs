//! Who changes the cluster while it runs: asks some server, again and again until it is answered.

use std::collections::BTreeMap;

use machine::nanos::{Span, Time};
use machine::{Rng, ServerId};
use placement::Command;
use store::ClientId;
use store::protocol::{Admin, Answer, ClientMessage, Error, Request, RequestBody, ServerMessage};

use super::core::{Core, Event};
use super::node::{Node, address};
use super::report::Finding;

/// Its number among the clients.
pub const ADMINISTRATOR: u32 = 31;
/// How long it tries what need not be done.
const PATIENCE: Span = Span::from_secs(3);

/// What it does.
#[derive(Clone, Debug)]
pub enum Task {
    /// A server joins. It is tried until it is done: a member that never starts would be a fault that never ends.
    Join {
        /// Names the new server's disk.
        nonce: u64,
        /// Whose place it takes.
        replaces: Option<ServerId>,
    },
    /// A server is removed.
    Remove(ServerId),
    /// Something that need not come to anything.
    Once(Admin),
}

/// The administrator.
pub struct Administrator {
    rng: Rng,
    tasks: BTreeMap<u64, Running>,
    next: u64,
    /// The next alarm for a task: its number and the time.
    connections: BTreeMap<ServerId, ClientId>,
}

struct Running {
    task: Task,
    deadline: Time,
    alarm: Time,
}

impl Administrator {
    /// Nothing to do yet.
    pub fn new(core: &Core) -> Self {
        Self { rng: core.rng.fork(0xad), tasks: BTreeMap::new(), next: 0, connections: BTreeMap::new() }
    }

    /// Whether a server is joining or leaving.
    pub fn changes_members(&self) -> bool {
        self.tasks.values().any(|running| !matches!(running.task, Task::Once(_)))
    }

    /// Whether it has nothing to do.
    pub fn is_idle(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Begins a task.
    pub fn begin(&mut self, core: &mut Core, task: Task) {
        core.note(|| format!("administrator begins {task:?}"));
        self.next += 1;
        let deadline = if matches!(task, Task::Once(_)) { core.now + PATIENCE } else { Time::NEVER };
        self.tasks.insert(self.next, Running { task, deadline, alarm: core.now });
        self.ask(core, self.next);
    }

    /// A task's time has come.
    pub fn wake(&mut self, core: &mut Core, number: u64) {
        let Some(running) = self.tasks.get(&number) else { return };
        if running.alarm > core.now {
            return;
        }
        if running.deadline <= core.now {
            self.tasks.remove(&number);
            return;
        }
        self.ask(core, number);
    }

    fn ask(&mut self, core: &mut Core, number: u64) {
        let running = core.running();
        let alarm = core.now + Span::from_ms(u64::from(200 + self.rng.below(400)));
        let Some(task) = self.tasks.get_mut(&number) else { return };
        task.alarm = alarm;
        core.calendar.push(alarm, Event::Wake(ADMINISTRATOR, number));
        if running.is_empty() {
            return;
        }
        let server = running[self.rng.below(running.len() as u32) as usize];
        let admin = match &task.task {
            Task::Join { nonce, replaces } => Admin::Join {
                name: format!("joined-{nonce:x}"),
                address: format!("10.1.0.{number}:4000"),
                nonce: *nonce,
                replaces: *replaces,
            },
            Task::Remove(id) => Admin::Placement(Command::RemoveServer { id: *id }),
            Task::Once(admin) => admin.clone(),
        };
        let connection = *self.connections.entry(server).or_insert_with(|| core.connect(ADMINISTRATOR));
        let body = RequestBody::Admin(admin);
        let request = Request { session: 1, sequence: number, acknowledged: 0, timeout_ms: 1_000, body };
        core.to_server(connection, server, ClientMessage::Request(request));
    }

    /// Something has come for it.
    pub fn receive(&mut self, core: &mut Core, message: ServerMessage) {
        let ServerMessage::Response(response) = message else { return };
        let number = response.sequence;
        let Some(running) = self.tasks.get(&number) else { return };
        match (running.task.clone(), response.result) {
            (_, Err(error)) if error.is_transient() => return,
            // An attempt that another server was asked for may still be carried out: only an answer to one ends the task.
            (Task::Join { .. } | Task::Remove(_), Err(Error::Needed(_))) => return,
            (Task::Join { .. }, Ok(Answer::Joined { server, members, .. })) => {
                self.joined(core, number, server, members);
            }
            (Task::Remove(id), Ok(_)) => leaves(core, id),
            // Two tasks may want what excludes each other; and a member may be what a shard must have.
            (task, Err(Error::Invalid(reason))) => core.note(|| format!("administrator: {task:?}: {reason}")),
            (Task::Once(task), result) => core.note(|| format!("administrator: {task:?}: {result:?}")),
            (task, result) => core.found(Finding::Surprise(format!("{task:?} came to {result:?}"))),
        }
        self.tasks.remove(&number);
    }

    fn joined(&mut self, core: &mut Core, number: u64, server: ServerId, mut members: BTreeMap<ServerId, String>) {
        let replaced = self.tasks.get(&number).and_then(|running| match running.task {
            Task::Join { replaces, .. } => replaces,
            _ => None,
        });
        if let Some(old) = replaced {
            leaves(core, old);
        }
        if core.nodes.contains_key(&server) {
            return;
        }
        members.entry(server).or_insert_with(|| address(server));
        let node: Node = core.new_node(server, members);
        core.nodes.insert(server, node);
        core.start(server);
    }
}

/// A server is no member any more. It stops itself when nobody needs it; if it did so already, it stays off.
fn leaves(core: &mut Core, id: ServerId) {
    if let Some(node) = core.nodes.get_mut(&id) {
        node.is_leaving = true;
        core.note(|| format!("server {id} is removed"));
    }
}
