/* What the port of `src/device/dpdk` calls of DPDK: most of that is inline functions and macros of its headers, which only a C compiler can read.
 *
 * Nothing is decided here. Numbers below 0 are errors: those of errno, negated. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

/* Descriptors of each of the two queues of a port. */
#define DESCRIPTORS 512
/* Buffers of a port: for both queues, rings of the driver, and what is under way. */
#define BUFFERS 2047

struct heddle_dpdk_port {
    struct rte_mempool *pool;
    uint16_t number;
};

static int failed(int code, int otherwise)
{
    if (code < -1)
        return code;
    return rte_errno > 0 ? -rte_errno : -otherwise;
}

/* Has DPDK start, once a process. */
int heddle_dpdk_start(int count, char **arguments)
{
    return rte_eal_init(count, arguments) < 0 ? failed(-1, EINVAL) : 0;
}

static int run(uint16_t number, struct rte_mempool *pool)
{
    struct rte_eth_conf configuration;
    uint16_t received = DESCRIPTORS, sent = DESCRIPTORS;
    int socket = rte_eth_dev_socket_id(number), code;

    memset(&configuration, 0, sizeof configuration);
    if ((code = rte_eth_dev_configure(number, 1, 1, &configuration)) != 0)
        return code;
    if ((code = rte_eth_dev_adjust_nb_rx_tx_desc(number, &received, &sent)) != 0)
        return code;
    if ((code = rte_eth_rx_queue_setup(number, 0, received, socket, NULL, pool)) != 0)
        return code;
    if ((code = rte_eth_tx_queue_setup(number, 0, sent, socket, NULL)) != 0)
        return code;
    if ((code = rte_eth_dev_start(number)) != 0)
        return code;
    /* Drivers that hear everything anyway refuse it. */
    rte_eth_promiscuous_enable(number);
    return 0;
}

void heddle_dpdk_close(struct heddle_dpdk_port *port)
{
    struct rte_eth_dev_info information;
    struct rte_mbuf *left[32];
    uint16_t count;
    int turn;

    /* A ring has what nobody has read. Who sends all the time is not waited for. */
    for (turn = 0; turn < 1024 && (count = rte_eth_rx_burst(port->number, 0, left, 32)) > 0; turn++)
        rte_pktmbuf_free_bulk(left, count);
    memset(&information, 0, sizeof information);
    rte_eth_dev_info_get(port->number, &information);
    rte_eth_dev_stop(port->number);
    rte_eth_dev_close(port->number);
    if (information.device != NULL)
        rte_dev_remove(information.device);
    /* What a driver still has would be freed under its hands. */
    if (rte_mempool_full(port->pool))
        rte_mempool_free(port->pool);
}

/* Opens a device: `name` is the device's, `arguments` it with its arguments, `pool` a name that no other port has. */
int heddle_dpdk_open(const char *name, const char *arguments, const char *pool, struct heddle_dpdk_port *port)
{
    struct rte_eth_dev_info information;
    int code;

    if (rte_eth_dev_get_port_by_name(name, &port->number) == 0)
        return -EEXIST;
    port->pool = rte_pktmbuf_pool_create(pool, BUFFERS, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    if (port->pool == NULL)
        return failed(-1, ENOMEM);
    /* Each driver has an error of its own for what it does not find. */
    if (rte_dev_probe(arguments) != 0) {
        rte_mempool_free(port->pool);
        return -ENODEV;
    }
    if (rte_eth_dev_get_port_by_name(name, &port->number) != 0) {
        rte_mempool_free(port->pool);
        return -ENODEV;
    }
    rte_errno = 0;
    if ((code = run(port->number, port->pool)) == 0)
        return 0;
    memset(&information, 0, sizeof information);
    rte_eth_dev_info_get(port->number, &information);
    rte_eth_dev_close(port->number);
    if (information.device != NULL)
        rte_dev_remove(information.device);
    rte_mempool_free(port->pool);
    return failed(code, EIO);
}

/* Up to `most` frames that have come. */
uint16_t heddle_dpdk_receive(const struct heddle_dpdk_port *port, struct rte_mbuf **frames, uint16_t most)
{
    return rte_eth_rx_burst(port->number, 0, frames, most);
}

/* Copies a frame to `to`, if there is room; its length. */
uint32_t heddle_dpdk_read(const struct rte_mbuf *frame, uint8_t *to, uint32_t room)
{
    const struct rte_mbuf *segment;
    uint32_t length = rte_pktmbuf_pkt_len(frame);

    if (length > room)
        return length;
    for (segment = frame, length = 0; segment != NULL; segment = segment->next) {
        /* The segments of a frame have its length together, if its driver is right. */
        if (rte_pktmbuf_data_len(segment) > room - length)
            return UINT32_MAX;
        memcpy(to + length, rte_pktmbuf_mtod(segment, const uint8_t *), rte_pktmbuf_data_len(segment));
        length += rte_pktmbuf_data_len(segment);
    }
    return length;
}

/* So many empty frames, or none: 0 if they are there. */
int heddle_dpdk_take(const struct heddle_dpdk_port *port, struct rte_mbuf **frames, uint16_t count)
{
    return rte_pktmbuf_alloc_bulk(port->pool, frames, count);
}

void heddle_dpdk_give_back(struct rte_mbuf **frames, uint16_t count)
{
    rte_pktmbuf_free_bulk(frames, count);
}

/* Copies bytes into an empty frame. 0 if there is room. */
int heddle_dpdk_write(struct rte_mbuf *frame, const uint8_t *bytes, uint16_t length)
{
    char *to = rte_pktmbuf_append(frame, length);

    if (to == NULL)
        return -EMSGSIZE;
    memcpy(to, bytes, length);
    return 0;
}

/* How many of the first frames the driver has taken. */
uint16_t heddle_dpdk_send(const struct heddle_dpdk_port *port, struct rte_mbuf **frames, uint16_t count)
{
    return rte_eth_tx_burst(port->number, 0, frames, count);
}

/* Frames that the driver has lost on their way in. */
uint64_t heddle_dpdk_losses(const struct heddle_dpdk_port *port)
{
    struct rte_eth_stats stats;

    if (rte_eth_stats_get(port->number, &stats) != 0)
        return 0;
    return stats.imissed + stats.ierrors + stats.rx_nombuf;
}
