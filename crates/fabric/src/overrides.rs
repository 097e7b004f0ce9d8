//! What cases of an experiment set: in the fabric, or in what goes on there.

use link::LinkSpec;
use serde::{Deserialize, Serialize};
use topology::{Link, Rerouting, Topology};
use vswitch::Spread;

use crate::bonds::BondSetting;
use crate::cluster::LoadSetting;
use crate::controllers::ControllersSetting;
use crate::document::NetworkSetting;
use crate::links::LinkSetting;
use crate::one_link::OneLinkSetting;
use crate::parameters::Kind;
use crate::services::ServiceSetting;
use crate::traffic::TrafficSetting;
use crate::{Axis, Fabric};

/// What one value of an axis sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Setting {
    /// In the fabric.
    Fabric(Override),
    /// In the traffic of the experiment.
    Traffic(TrafficSetting),
    /// In what is asked of the controllers.
    Load(LoadSetting),
}

/// One thing that a case changes in the fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a setting of a fabric, like {\"link-rate\": 1000000}")]
pub enum Override {
    /// Of the whole network.
    Network(NetworkSetting),
    /// Of all links that it concerns.
    Link(LinkSetting),
    /// Of one link.
    OneLink(OneLinkSetting),
    /// Of all bonds.
    Bond(BondSetting),
    /// Of all services.
    Service(ServiceSetting),
    /// Of the controllers.
    Controllers(ControllersSetting),
}

/// What one case changes in the fabric, in the order in which that is done. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Overrides(pub Vec<Override>);

macro_rules! from {
    ($($setting:ident => $group:ident;)*) => { $(
        impl From<$setting> for Override {
            fn from(setting: $setting) -> Self {
                Self::$group(setting)
            }
        }

        impl From<$setting> for Setting {
            fn from(setting: $setting) -> Self {
                Self::Fabric(setting.into())
            }
        }
    )* };
}
from! {
    NetworkSetting => Network;
    LinkSetting => Link;
    OneLinkSetting => OneLink;
    BondSetting => Bond;
    ServiceSetting => Service;
    ControllersSetting => Controllers;
}

impl From<TrafficSetting> for Setting {
    fn from(setting: TrafficSetting) -> Self {
        Self::Traffic(setting)
    }
}

impl From<LoadSetting> for Setting {
    fn from(setting: LoadSetting) -> Self {
        Self::Load(setting)
    }
}

impl<T: Into<Override>, const N: usize> From<[T; N]> for Overrides {
    fn from(settings: [T; N]) -> Self {
        Self(settings.into_iter().map(Into::into).collect())
    }
}

impl Setting {
    /// Whether it is a way to do something that reports compare with the first one of its axis. Else it is a circumstance.
    pub const fn is_policy(&self) -> bool {
        let kind = match self {
            Self::Fabric(setting) => setting.kind(),
            Self::Traffic(setting) => setting.kind(),
            Self::Load(setting) => setting.kind(),
        };
        matches!(kind, Kind::Policy)
    }
}

impl Override {
    const fn kind(&self) -> Kind {
        match self {
            Self::Network(setting) => setting.kind(),
            Self::Link(setting) => setting.kind(),
            Self::OneLink(setting) => setting.kind(),
            Self::Bond(setting) => setting.kind(),
            Self::Service(setting) => setting.kind(),
            Self::Controllers(setting) => setting.kind(),
        }
    }

    fn apply(&self, fabric: &mut Fabric) {
        match self {
            Self::Network(setting) => setting.apply(fabric),
            Self::Link(setting) => {
                fabric.topology.links.iter_mut().flat_map(Link::specs_mut).for_each(|spec| setting.apply(spec));
            }
            Self::OneLink(setting) => setting.apply(fabric),
            Self::Bond(setting) => setting.apply(fabric),
            Self::Service(setting) => fabric.services.iter_mut().for_each(|service| setting.apply(service)),
            Self::Controllers(setting) => fabric.controllers.iter_mut().for_each(|block| setting.apply(block)),
        }
    }
}

impl Overrides {
    /// Whether nothing but how packets are spread is changed: the rest of the fabric need not be copied.
    pub fn spread_only(&self) -> bool {
        self.0.iter().all(|setting| matches!(setting, Override::Network(NetworkSetting::Spread(_))))
    }

    /// How packets are spread where `fabric` is changed so.
    pub fn spread(&self, fabric: &Fabric) -> Spread {
        let found = self.0.iter().rev().find_map(|setting| {
            if let Override::Network(NetworkSetting::Spread(spread)) = setting { Some(*spread) } else { None }
        });
        found.unwrap_or(fabric.spread)
    }

    /// Whether routes follow the links where `fabric` is changed so.
    pub fn rerouting(&self, fabric: &Fabric) -> Rerouting {
        let found = self.0.iter().rev().find_map(|setting| {
            if let Override::Network(NetworkSetting::Routes(rerouting)) = setting { Some(*rerouting) } else { None }
        });
        found.unwrap_or(fabric.rerouting)
    }

    /// What a link does that does `spec` in the fabric.
    #[must_use]
    pub fn link(&self, topology: &Topology, link: &Link, mut spec: LinkSpec) -> LinkSpec {
        for setting in &self.0 {
            match setting {
                Override::Link(setting) => setting.apply(&mut spec),
                Override::OneLink(one) if one.is_of(topology, link) => one.set.apply(&mut spec),
                Override::Network(NetworkSetting::Shaping(false)) => spec = LinkSpec::default(),
                Override::Network(_)
                | Override::OneLink(_)
                | Override::Bond(_)
                | Override::Service(_)
                | Override::Controllers(_) => {}
            }
        }
        spec
    }

    /// How many controllers there are then, where that is changed.
    pub fn nodes(&self) -> Option<u32> {
        self.0.iter().rev().find_map(|setting| {
            if let Override::Controllers(ControllersSetting::Nodes(nodes)) = setting { Some(*nodes) } else { None }
        })
    }
}

impl Fabric {
    /// The fabric as one case has it. A rate or a queue is changed only on links that have a rate.
    #[must_use]
    pub fn with(&self, overrides: &Overrides) -> Self {
        let mut fabric = self.clone();
        overrides.0.iter().for_each(|setting| setting.apply(&mut fabric));
        fabric
    }
}

fn settings(axes: &[Axis]) -> impl Iterator<Item = &Setting> {
    axes.iter().flat_map(|axis| &axis.values).map(|(_, setting)| setting)
}

/// What axes set in the traffic.
pub(crate) fn traffic_settings(axes: &[Axis]) -> impl Iterator<Item = &TrafficSetting> {
    settings(axes).filter_map(|setting| if let Setting::Traffic(setting) = setting { Some(setting) } else { None })
}

/// What axes set in the fabric.
pub(crate) fn fabric_settings(axes: &[Axis]) -> impl Iterator<Item = &Override> {
    settings(axes).filter_map(|setting| if let Setting::Fabric(setting) = setting { Some(setting) } else { None })
}

/// What axes set in the load on the controllers.
pub(crate) fn load_settings(axes: &[Axis]) -> impl Iterator<Item = &LoadSetting> {
    settings(axes).filter_map(|setting| if let Setting::Load(setting) = setting { Some(setting) } else { None })
}

/// What axes set at the bonds.
pub(crate) fn bond_settings(axes: &[Axis]) -> impl Iterator<Item = &BondSetting> {
    settings(axes)
        .filter_map(|setting| if let Setting::Fabric(Override::Bond(setting)) = setting { Some(setting) } else { None })
}

/// What axes set at the services.
pub(crate) fn service_settings(axes: &[Axis]) -> impl Iterator<Item = &ServiceSetting> {
    settings(axes).filter_map(|setting| {
        if let Setting::Fabric(Override::Service(setting)) = setting { Some(setting) } else { None }
    })
}

/// What axes set at the controllers.
pub(crate) fn controllers_settings(axes: &[Axis]) -> impl Iterator<Item = &ControllersSetting> {
    settings(axes).filter_map(|setting| {
        if let Setting::Fabric(Override::Controllers(setting)) = setting { Some(setting) } else { None }
    })
}
