//! The topologies that Mininet brings along, by the names and the numbers that they have there.

/// They are programs as a file has them.
pub const TOPOLOGIES: &str = r"
class SingleSwitchTopo(Topo):
    def build(self, k=2, **_opts):
        s1 = self.addSwitch('s1')
        for number in range(1, k + 1):
            self.addLink(self.addHost('h%d' % number), s1)

class SingleSwitchReversedTopo(Topo):
    def build(self, k=2):
        s1 = self.addSwitch('s1')
        for number in range(1, k + 1):
            self.addLink(self.addHost('h%d' % number), s1)

class MinimalTopo(SingleSwitchTopo):
    def build(self):
        return SingleSwitchTopo.build(self, k=2)

class LinearTopo(Topo):
    def build(self, k=2, n=1, sopts=None, **_opts):
        before = None
        for switch in range(1, k + 1):
            s = self.addSwitch('s%d' % switch)
            for number in range(1, n + 1):
                name = 'h%d' % switch if n == 1 else 'h%ds%d' % (number, switch)
                self.addLink(self.addHost(name), s)
            if before:
                self.addLink(s, before)
            before = s

class TreeTopo(Topo):
    def build(self, depth=1, fanout=2):
        self.hosts_made = 0
        self.switches_made = 0
        self.addTree(depth, fanout)

    def addTree(self, depth, fanout):
        if depth <= 0:
            self.hosts_made += 1
            return self.addHost('h%d' % self.hosts_made)
        self.switches_made += 1
        switch = self.addSwitch('s%d' % self.switches_made)
        for _ in range(fanout):
            self.addLink(switch, self.addTree(depth - 1, fanout))
        return switch

class TorusTopo(Topo):
    def build(self, x, y, n=1):
        names = [[ '%dx%d' % (i + 1, j + 1) for j in range(y)] for i in range(x)]
        for row in names:
            for name in row:
                self.addSwitch('s' + name)
                for number in range(n):
                    host = 'h' + name if n == 1 else 'h%sx%d' % (name, number + 1)
                    self.addLink(self.addHost(host), 's' + name)
        for i in range(x):
            for j in range(y):
                self.addLink('s' + names[i][j], 's' + names[i][(j + 1) % y])
                self.addLink('s' + names[i][j], 's' + names[(i + 1) % x][j])

def TreeNet(depth=1, fanout=2, **options):
    return Mininet(topo=TreeTopo(depth, fanout), **options)
";
