// TCP flows over one slow link, simulated by ns-3, in a form that `benches/ns3.sh` can hold against Heddle's:
//
//     h1 --.                       .-- h(n+1)
//          s1 ---- slow link ---- s2        (incast: all flows go to one host)
//     hn --'                       '-- h(2n)
//
// It prints one line of JSON: goodput in bit/s (payload at the receiving programs in the window), segments sent again, packets that the
// slow link's queue turned away, and the mean of what waited in it.
//
// A host of Heddle has Ethernet's 14 bytes around an IP packet, one of ns-3 PPP's 2. So that a full segment takes as long, rates are those of
// Heddle times 1502/1514.

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

namespace {

constexpr uint32_t kSegment = 1448; // 1,500 bytes less IPv4, TCP and timestamps
constexpr double kFraming = 1502.0 / 1514.0;

Time g_from, g_to;
bool InWindow() { return Simulator::Now() >= g_from && Simulator::Now() < g_to; }

uint64_t g_delivered, g_resent, g_drops;
std::map<const TcpSocketBase*, SequenceNumber32> g_sent;

void Delivered(Ptr<const Packet> packet, const Address&) {
  if (InWindow()) g_delivered += packet->GetSize();
}

void Sent(Ptr<const Packet> packet, const TcpHeader& header, Ptr<const TcpSocketBase> socket) {
  if (packet->GetSize() == 0) return;
  auto end = header.GetSequenceNumber() + packet->GetSize();
  auto [place, is_first] = g_sent.try_emplace(PeekPointer(socket), end);
  if (is_first) return;
  if (header.GetSequenceNumber() < place->second && InWindow()) ++g_resent;
  if (end > place->second) place->second = end;
}

void Dropped(Ptr<const Packet>) {
  if (InWindow()) ++g_drops;
}

// The mean of what waits, over time.
uint32_t g_waiting;
double g_area;
Time g_changed;
void Waiting(uint32_t, uint32_t now) {
  Time from = std::max(g_changed, g_from), to = std::min(Simulator::Now(), g_to);
  if (to > from) g_area += (to - from).GetSeconds() * g_waiting;
  g_changed = Simulator::Now();
  g_waiting = now;
}

void Begin(Ptr<Node> from, Address to) {
  auto socket = Socket::CreateSocket(from, TcpSocketFactory::GetTypeId());
  socket->TraceConnectWithoutContext("Tx", MakeCallback(&Sent));
  socket->Bind();
  socket->Connect(to);
  auto fill = [](Ptr<Socket> socket, uint32_t room) {
    while (room > 0 && socket->GetTxAvailable() > 0) {
      uint32_t some = std::min<uint32_t>(socket->GetTxAvailable(), 64 * kSegment);
      if (socket->Send(Create<Packet>(some)) < 0) return;
    }
  };
  socket->SetSendCallback(MakeCallback<void, Ptr<Socket>, uint32_t>(+fill));
}

} // namespace

int main(int argc, char** argv) {
  uint32_t flows = 1, queue = 50, run = 1;
  double rate = 20, fast = 1000, delay_us = 2000, warm = 2, length = 8;
  std::string control = "cubic", near_us = "100";
  bool incast = false;
  CommandLine line;
  line.AddValue("flows", "flows, each between hosts of its own", flows);
  line.AddValue("rate", "the slow link's, Mbit/s", rate);
  line.AddValue("fast", "the other links', Mbit/s", fast);
  line.AddValue("delay", "the slow link's, us", delay_us);
  line.AddValue("near", "the senders' links', us; the flows take the values in turn", near_us);
  line.AddValue("queue", "the slow link's, packets", queue);
  line.AddValue("control", "cubic or reno", control);
  line.AddValue("incast", "all flows go to one host", incast);
  line.AddValue("warm", "seconds before the window", warm);
  line.AddValue("for", "the window, seconds", length);
  line.AddValue("run", "which repetition", run);
  line.Parse(argc, argv);
  RngSeedManager::SetRun(run);
  g_from = Seconds(warm);
  g_to = Seconds(warm + length);

  auto type = control == "reno" ? TcpLinuxReno::GetTypeId() : TcpCubic::GetTypeId();
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(type));
  Config::SetDefault("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(TcpPrrRecovery::GetTypeId()));
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kSegment));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(8 << 20));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(8 << 20));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpSocket::DelAckTimeout", TimeValue(MilliSeconds(40)));
  Config::SetDefault("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(200)));

  NodeContainer senders(flows), switches(2), receivers(incast ? 1 : flows);
  InternetStackHelper().Install(NodeContainer(senders, switches, receivers));
  Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
  auto join = [&](Ptr<Node> one, Ptr<Node> other, double mbit, double us, uint32_t packets) {
    PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(mbit * 1e6 * kFraming))));
    link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(uint64_t(us * 1e3))));
    link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, packets)));
    auto devices = link.Install(one, other);
    auto given = addresses.Assign(devices);
    // Addresses bring a queueing discipline along: the link's queue is to be the only one.
    TrafficControlHelper().Uninstall(devices);
    addresses.NewNetwork();
    return std::pair(devices, given);
  };
  std::vector<double> near;
  for (size_t at = 0; at < near_us.size();) {
    size_t used;
    near.push_back(std::stod(near_us.substr(at), &used));
    at += used + 1;
  }
  for (uint32_t i = 0; i < flows; ++i) join(senders.Get(i), switches.Get(0), fast, near[i % near.size()], 200);
  auto [slow, _] = join(switches.Get(0), switches.Get(1), rate, delay_us, queue);
  auto waiting = DynamicCast<PointToPointNetDevice>(slow.Get(0))->GetQueue();
  // A device whose queue is full is stopped, and what comes then is turned away before it.
  switches.Get(0)->GetObject<TrafficControlLayer>()->TraceConnectWithoutContext("TcDrop", MakeCallback(&Dropped));
  waiting->TraceConnectWithoutContext("PacketsInQueue", MakeCallback(&Waiting));

  Ptr<UniformRandomVariable> soon = CreateObject<UniformRandomVariable>();
  std::vector<Ipv4Address> homes;
  for (uint32_t i = 0; i < receivers.GetN(); ++i) {
    auto [devices, given] = join(switches.Get(1), receivers.Get(i), fast, 100, 200);
    homes.push_back(given.GetAddress(1));
  }
  Ipv4GlobalRoutingHelper::PopulateRoutingTables();
  for (uint32_t i = 0; i < flows; ++i) {
    uint32_t home = i % receivers.GetN();
    uint16_t port = 5000 + i;
    auto sink = PacketSinkHelper("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port)).Install(receivers.Get(home));
    sink.Get(0)->TraceConnectWithoutContext("Rx", MakeCallback(&Delivered));
    Simulator::Schedule(MicroSeconds(soon->GetInteger(0, 20000)), &Begin, senders.Get(i), InetSocketAddress(homes[home], port));
  }
  Simulator::Stop(g_to);
  Simulator::Run();
  Waiting(0, 0);
  std::printf("{\"goodput\":%.0f,\"resent\":%lu,\"drops\":%lu,\"queue\":%.2f}\n", g_delivered * 8 / length, (unsigned long)g_resent,
              (unsigned long)g_drops, g_area / length);
  Simulator::Destroy();
}
