// Frames of 64 bytes into one DPDK port and out of another one, each with the time at which it was sent: how many come, and how long they take.
//
//   probe EAL-OPTIONS -- PER-SECOND SECONDS FLOWS     PER-SECOND 0: as fast as they are taken
//
// The first port sends, the second one receives, both on one core. Half a second behind the first frame that comes, it is counted for so many seconds. Prints one line: frames that came a
// second, millions; those of them that were sent meanwhile and did not come, per cent; the delay in microseconds at p50, p99, p99.9, and the longest.
// UDP from port 1024 to port 9; flows differ in the address to which they go, 10.0.0.2 and the next ones.
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_mbuf.h>
#include <rte_udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BURST = 32, RING = 1024, BUFFERS = 16384, FRAME = 60 };
static const uint64_t MARK = 0x656c64646568ull;

struct stamp {
    uint64_t mark, sent;
};

struct frame {
    struct rte_ether_hdr ethernet;
    struct rte_ipv4_hdr ip;
    struct rte_udp_hdr udp;
    struct stamp stamp;
    uint8_t rest[FRAME - 42 - sizeof(struct stamp)];
} __attribute__((packed, aligned(2)));
_Static_assert(sizeof(struct frame) == FRAME, "a frame of 64 bytes, less its check sequence");

static void open_port(uint16_t port, struct rte_mempool *pool) {
    struct rte_eth_conf conf = {0};
    if (rte_eth_dev_configure(port, 1, 1, &conf) < 0 || rte_eth_rx_queue_setup(port, 0, RING, 0, NULL, pool) < 0 ||
        rte_eth_tx_queue_setup(port, 0, RING, 0, NULL) < 0 || rte_eth_dev_start(port) < 0)
        rte_exit(EXIT_FAILURE, "port %u cannot be used\n", port);
}

static void fill(struct frame *frame, uint32_t flow, uint64_t now) {
    const struct rte_ether_addr from = {{2, 0, 0, 0, 0, 1}}, to = {{2, 0, 0, 0, 0, 2}};
    *frame = (struct frame){
        .ethernet = {.dst_addr = to, .src_addr = from, .ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4)},
        .ip = {.version_ihl = 0x45,
               .total_length = rte_cpu_to_be_16(FRAME - 14),
               .time_to_live = 64,
               .next_proto_id = IPPROTO_UDP,
               .src_addr = rte_cpu_to_be_32(RTE_IPV4(10, 0, 0, 1)),
               .dst_addr = rte_cpu_to_be_32(RTE_IPV4(10, 0, 0, 2) + flow)},
        .udp = {.src_port = rte_cpu_to_be_16(1024), .dst_port = rte_cpu_to_be_16(9), .dgram_len = rte_cpu_to_be_16(FRAME - 34)},
        .stamp = {.mark = MARK, .sent = now},
    };
    frame->ip.hdr_checksum = rte_ipv4_cksum(&frame->ip);
}

static int order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    int used = rte_eal_init(argc, argv);
    if (used < 0) rte_exit(EXIT_FAILURE, "EAL does not start\n");
    argc -= used, argv += used;
    if (argc != 4) rte_exit(EXIT_FAILURE, "expected PER-SECOND SECONDS FLOWS\n");
    const double rate = atof(argv[1]), seconds = atof(argv[2]);
    const uint32_t flows = (uint32_t)atoi(argv[3]);
    struct rte_mempool *pool = rte_pktmbuf_pool_create("frames", BUFFERS, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, rte_socket_id());
    if (!pool || flows == 0) rte_exit(EXIT_FAILURE, "no buffers, or no flows\n");
    open_port(0, pool);
    open_port(1, pool);

    const uint64_t hz = rte_get_tsc_hz(), length = (uint64_t)(seconds * hz), give_up = rte_rdtsc() + 15 * hz;
    const uint64_t every = rate > 0 ? (uint64_t)(hz / rate) : 0;
    const size_t room = 16u << 20;
    uint64_t *delays = malloc(room * sizeof *delays);
    if (!delays) rte_exit(EXIT_FAILURE, "no memory\n");
    uint64_t next = rte_rdtsc(), from = 0, until = UINT64_MAX, sent = 0, came = 0;
    size_t kept = 0;
    uint32_t flow = 0;
    struct rte_mbuf *burst[BURST];
    for (;;) {
        uint64_t now = rte_rdtsc();
        // What was sent in time may still come for a tenth of a second.
        if (now >= until && now - until > hz / 10) break;
        if (!from && now > give_up) rte_exit(EXIT_FAILURE, "no frame comes back\n");
        if (now < until && (!every || now >= next)) {
            uint16_t wanted = every ? 1 : BURST;
            // Who was kept from sending does not catch up by a burst.
            if (every) next = now - next > 100 * every ? now + every : next + every;
            if (rte_pktmbuf_alloc_bulk(pool, burst, wanted) == 0) {
                for (uint16_t i = 0; i < wanted; i++) {
                    fill((struct frame *)rte_pktmbuf_append(burst[i], FRAME), flow, every ? rte_rdtsc() : now);
                    flow = flow + 1 == flows ? 0 : flow + 1;
                }
                uint16_t taken = rte_eth_tx_burst(0, 0, burst, wanted);
                rte_pktmbuf_free_bulk(burst + taken, wanted - taken);
                if (from && now >= from) sent += taken;
            }
        }
        uint16_t count = rte_eth_rx_burst(1, 0, burst, BURST);
        if (count) now = rte_rdtsc();
        for (uint16_t i = 0; i < count; i++) {
            const struct frame *frame = rte_pktmbuf_mtod(burst[i], const struct frame *);
            if (burst[i]->data_len < FRAME || frame->stamp.mark != MARK) continue;
            if (!from) from = now + hz / 2, until = from + length;
            if (frame->stamp.sent < from || frame->stamp.sent >= until) continue;
            came++;
            if (kept < room) delays[kept++] = now - frame->stamp.sent;
        }
        if (count) rte_pktmbuf_free_bulk(burst, count);
        // Answers, floods: nothing is done with them.
        count = rte_eth_rx_burst(0, 0, burst, BURST);
        if (count) rte_pktmbuf_free_bulk(burst, count);
    }
    if (!kept) rte_exit(EXIT_FAILURE, "no frame comes back\n");
    qsort(delays, kept, sizeof *delays, order);
    const double us = 1e6 / hz;
    const double lost = sent > came ? 100.0 * (double)(sent - came) / (double)sent : 0;
    printf("%.4f %.3f %.2f %.2f %.2f %.2f\n", (double)came / seconds / 1e6, lost, delays[kept / 2] * us, delays[(size_t)(kept * 0.99)] * us, delays[(size_t)(kept * 0.999)] * us,
           delays[kept - 1] * us);
    rte_eal_cleanup();
    return 0;
}
