//! Threads that do what takes long.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mio::Waker;

use super::block::Block;
use crate::error::Error;

/// What a thread is to do.
#[derive(Debug)]
pub(super) struct Job {
    pub id: u64,
    /// Bytes to take.
    pub size: u64,
    /// How long to compute; no time for those that only hold their memory.
    pub computes: Duration,
}

/// What it has done: the memory, if there was any.
#[derive(Debug)]
pub(super) struct Done {
    pub id: u64,
    pub block: Option<Block>,
}

/// The threads. They end when this is dropped.
#[derive(Debug)]
pub(super) struct Workers {
    jobs: Sender<Job>,
    done: Receiver<Done>,
}

impl Workers {
    /// So many threads, which wake the loop with each thing that is done.
    pub fn start(threads: usize, waker: &Arc<Waker>) -> Result<Self, Error> {
        let (jobs, queue) = channel::<Job>();
        let (finished, done) = channel();
        let queue = Arc::new(Mutex::new(queue));
        for index in 0..threads.max(1) {
            let (queue, finished, waker) = (Arc::clone(&queue), finished.clone(), Arc::clone(waker));
            let work = move || {
                while let Some(job) = next(&queue) {
                    let mut block = Block::take(job.size);
                    if let Some(block) = &mut block
                        && !job.computes.is_zero()
                    {
                        block.compute(job.computes);
                    }
                    if finished.send(Done { id: job.id, block }).is_err() || waker.wake().is_err() {
                        return;
                    }
                }
            };
            let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(work);
            thread.map_err(Error::system("make a thread"))?;
        }
        Ok(Self { jobs, done })
    }

    /// Gives a job to whichever thread is free next.
    pub fn give(&self, job: Job) {
        self.jobs.send(job).expect("the threads live as long as this");
    }

    /// Something that is done.
    pub fn take_done(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }
}

/// The next job; nothing at the end.
fn next(queue: &Mutex<Receiver<Job>>) -> Option<Job> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
