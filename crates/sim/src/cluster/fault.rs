//! What can go wrong in a simulated cluster.

/// Something that can go wrong, or be changed while things go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A process is killed; its files stay.
    Kill,
    /// A machine loses power, and what was not synced.
    PowerLoss,
    /// All machines lose power at once.
    Blackout,
    /// A process stands still for a while, perhaps with half of what came in handled. Then it gets all that came meanwhile
    /// at once, and clients ask it.
    Pause,
    /// A process stands still, and while it does a leader is not heard by others any more, or does not hear them; when it
    /// goes on, clients ask the leader.
    PauseAndCut,
    /// A server is cut off from all others, clients too or not.
    Isolate,
    /// The parties fall into two halves.
    Split,
    /// A server is not heard, or does not hear.
    OneWay,
    /// A server is not heard by one other.
    CutPair,
    /// A clock changes its speed, within the bound.
    ClockDrift,
    /// A clock jumps ahead or changes its speed beyond the bound.
    ClockBeyond,
    /// A disk does nothing for a while.
    DiskStall,
    /// A disk is full for a while.
    DiskFull,
    /// A sync fails.
    SyncFailure,
    /// A write fails after a part of it was written.
    WriteFailure,
    /// A server is killed, and a bit of a file flips before it starts again. If it refuses to, a new one takes its place.
    BitRot,
    /// A server joins.
    AddServer,
    /// A server is removed.
    RemoveServer,
    /// A new server takes the place of an old one.
    ReplaceServer,
    /// A shard is made, and takes a prefix.
    CreateShard,
    /// A prefix moves to another shard.
    MovePrefix,
    /// A shard is deleted.
    DeleteShard,
    /// A shard gets other replicas.
    SetReplicas,
    /// A leader is moved.
    MoveLeader,
    /// A shard is pinned to a server, or not any more.
    Pin,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::Kill,
        Self::PowerLoss,
        Self::Blackout,
        Self::Pause,
        Self::PauseAndCut,
        Self::Isolate,
        Self::Split,
        Self::OneWay,
        Self::CutPair,
        Self::ClockDrift,
        Self::ClockBeyond,
        Self::DiskStall,
        Self::DiskFull,
        Self::SyncFailure,
        Self::WriteFailure,
        Self::BitRot,
        Self::AddServer,
        Self::RemoveServer,
        Self::ReplaceServer,
        Self::CreateShard,
        Self::MovePrefix,
        Self::DeleteShard,
        Self::SetReplicas,
        Self::MoveLeader,
        Self::Pin,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::PowerLoss => "power loss",
            Self::Blackout => "blackout",
            Self::Pause => "pause",
            Self::PauseAndCut => "pause while a leader is cut off",
            Self::Isolate => "isolation",
            Self::Split => "split",
            Self::OneWay => "one-way cut",
            Self::CutPair => "one-way cut of a pair",
            Self::ClockDrift => "clock drift",
            Self::ClockBeyond => "clock beyond its bound",
            Self::DiskStall => "disk stall",
            Self::DiskFull => "disk full",
            Self::SyncFailure => "sync failure",
            Self::WriteFailure => "write failure",
            Self::BitRot => "bit rot",
            Self::AddServer => "server added",
            Self::RemoveServer => "server removed",
            Self::ReplaceServer => "server replaced",
            Self::CreateShard => "shard created",
            Self::MovePrefix => "prefix moved",
            Self::DeleteShard => "shard deleted",
            Self::SetReplicas => "replicas changed",
            Self::MoveLeader => "leader moved",
            Self::Pin => "leader pinned",
        }
    }

    /// Whether it changes the members or the shards.
    pub const fn changes_the_cluster(self) -> bool {
        matches!(
            self,
            Self::AddServer
                | Self::RemoveServer
                | Self::ReplaceServer
                | Self::CreateShard
                | Self::MovePrefix
                | Self::DeleteShard
                | Self::SetReplicas
        )
    }
}
