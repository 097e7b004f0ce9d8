//! A controller that ends with whoever started it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Ends this process, as SIGTERM does, when nobody holds the other end of its standard input any more. To be called when
/// [`super::run`] is ready: it has taken the signals by then, so that the thread which waits here gets none.
pub fn end_with_stdin() {
    std::thread::spawn(|| {
        // Whatever comes in: only the end matters.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        // To the process, not to this thread, which does not take it.
        let _ = kill(Pid::this(), Signal::SIGTERM);
    });
}
