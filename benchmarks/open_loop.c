/* Sends requests at fixed times, whatever the broker does, and measures each response from the time when its request was due.
 *
 * usage: open_loop HOST PORT RATE SECONDS CONNECTIONS BATCH_AT OFFSET_AT FIRST_OFFSET < frames > samples
 *
 * Of RATE requests in a second every other one is a Produce and every other one a Fetch of an old record, each kind in turn on
 * CONNECTIONS connections of its own. One more connection is a consumer that always waits for the next record (Fetch v4). The
 * standard input has three frames with their sizes in front, as they go to the broker: Produce, Fetch, the consumer's Fetch.
 * BATCH_AT is where the record batch begins in the Produce, which it ends; the last 8 bytes but one of the batch are the last of
 * the record's value, and get the time when the request was due. OFFSET_AT is where the fetch offset stands in the consumer's.
 *
 * The output has, for each sample, three int64 of the machine: kind, when it was due, nanoseconds taken (CLOCK_MONOTONIC).
 * Kinds: 0 Produce, 1 Fetch, 2 from when a record was due until the consumer has it, 3 how late the generator sent a request.
 * A request without a response at the end, 10 s after the last was due, has -1 nanoseconds, and so has a record that the consumer
 * does not have then.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PRODUCE, FETCH, CONSUME, LATE, KINDS };
enum { GRACE_S = 10, IN_BYTES = 4 << 20, EVENTS = 64, CRC_AT = 17, CRC_FROM = 21, BATCH_HEADER = 61, PRIORITY = 20 };

typedef struct {
    uint8_t *bytes;
    size_t size;
} Buffer;

typedef struct {
    int fd, kind;
    Buffer out;             /* what the socket did not take yet */
    uint8_t *in;
    size_t in_size;
    int64_t *due;           /* of the requests under way, a ring */
    size_t first, under_way, room;
} Connection;

static Buffer frames[3];
static size_t batch_at, offset_at;
static int64_t next_offset, consumed_count, *samples;
static size_t sample_count, sample_room;
static uint32_t crc_table[256];
static int selector;

static void die(const char *what) {
    fprintf(stderr, "open_loop: %s: %s\n", what, errno ? strerror(errno) : "failed");
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void *resized(void *bytes, size_t size) {
    if (!(bytes = realloc(bytes, size))) die("memory");
    return bytes;
}

static void note(int64_t kind, int64_t due, int64_t taken) {
    if (sample_count == sample_room) samples = resized(samples, 24 * (sample_room = 2 * sample_room + 4096));
    int64_t *sample = samples + 3 * sample_count++;
    sample[0] = kind, sample[1] = due, sample[2] = taken;
}

/* --- bytes of the protocol --- */

static uint32_t get32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return be32toh(value);
}

static int64_t get64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, 8);
    return (int64_t)be64toh(value);
}

static void put32(uint8_t *at, uint32_t value) {
    value = htobe32(value);
    memcpy(at, &value, 4);
}

static void put64(uint8_t *at, int64_t value) {
    uint64_t big = htobe64((uint64_t)value);
    memcpy(at, &big, 8);
}

static uint32_t crc32c(const uint8_t *at, size_t size) {
    uint32_t crc = ~0u;
    while (size--) crc = crc_table[(crc ^ *at++) & 255] ^ crc >> 8;
    return ~crc;
}

static void make_crc_table(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
        crc_table[n] = crc;
    }
}

static void stamp(int64_t due) {
    uint8_t *batch = frames[PRODUCE].bytes + batch_at, *end = frames[PRODUCE].bytes + frames[PRODUCE].size;
    put64(end - 9, due); /* the record's last byte is its number of headers */
    put32(batch + CRC_AT, crc32c(batch + CRC_FROM, (size_t)(end - batch) - CRC_FROM));
}

/* Notes each record of a response to the consumer. */
static void consumed(const uint8_t *at, size_t size, int64_t now) {
    const uint8_t *end = at + size;
    at += 4 + 4 + 4;                            /* correlation id, throttle time, one topic */
    at += 2 + (at[0] << 8 | at[1]) + 4 + 4;     /* its name, one partition, its index */
    int error = at[0] << 8 | at[1];
    at += 2 + 8 + 8;
    uint32_t aborted = get32(at);
    at += 4 + (aborted == UINT32_MAX ? 0 : 16 * aborted) + 4;
    if (error) errno = 0, die("the consumer's Fetch has an error");
    while (end - at >= BATCH_HEADER) {
        int64_t base = get64(at);
        size_t bytes = 12 + get32(at + 8);
        if (bytes > (size_t)(end - at)) break;
        if (base >= next_offset) {
            int64_t due = get64(at + bytes - 9);
            note(CONSUME, due, now - due);
            next_offset = base + 1, consumed_count++;
        }
        at += bytes;
    }
}

/* --- connections --- */

static void watch(Connection *one, int operation) {
    struct epoll_event event = {.events = EPOLLIN | (one->out.size ? EPOLLOUT : 0), .data.ptr = one};
    if (epoll_ctl(selector, operation, one->fd, &event)) die("epoll");
}

static void flush(Connection *one) {
    size_t before = one->out.size;
    while (one->out.size) {
        ssize_t sent = send(one->fd, one->out.bytes, one->out.size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent < 0) die("send");
        memmove(one->out.bytes, one->out.bytes + sent, one->out.size -= (size_t)sent);
    }
    if (!before != !one->out.size) watch(one, EPOLL_CTL_MOD);
}

static void request(Connection *one, int64_t due) {
    const Buffer *frame = &frames[one->kind];
    if (one->under_way == one->room) {
        size_t room = 2 * one->room;
        int64_t *ring = resized(NULL, 8 * room);
        for (size_t n = 0; n < one->under_way; n++) ring[n] = one->due[(one->first + n) % one->room];
        free(one->due);
        one->due = ring, one->room = room, one->first = 0;
    }
    one->due[(one->first + one->under_way++) % one->room] = due;
    if (one->kind == PRODUCE) stamp(due);
    ssize_t sent = 0;
    if (!one->out.size) {
        sent = send(one->fd, frame->bytes, frame->size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) die("send");
        if (sent < 0) sent = 0;
        if ((size_t)sent == frame->size) return;
    }
    size_t rest = frame->size - (size_t)sent, size = one->out.size;
    one->out.bytes = resized(one->out.bytes, size + rest);
    memcpy(one->out.bytes + size, frame->bytes + sent, rest);
    one->out.size = size + rest;
    if (!size) watch(one, EPOLL_CTL_MOD);
}

static void receive(Connection *one) {
    ssize_t got = recv(one->fd, one->in + one->in_size, IN_BYTES - one->in_size, 0);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("the broker closed a connection");
    int64_t now = now_ns();
    size_t at = 0;
    one->in_size += (size_t)got;
    while (one->in_size - at >= 4 && one->in_size - at >= 4 + (size_t)get32(one->in + at)) {
        size_t size = get32(one->in + at);
        int64_t due = one->due[one->first];
        one->first = (one->first + 1) % one->room, one->under_way--;
        if (one->kind == CONSUME) {
            consumed(one->in + at + 4, size, now);
            put64(frames[CONSUME].bytes + offset_at, next_offset);
            request(one, now);
        } else {
            note(one->kind, due, now - due);
        }
        at += 4 + size;
    }
    memmove(one->in, one->in + at, one->in_size -= at);
}

static void connected(Connection *one, int kind, const char *host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) die("the host is no IPv4 address");
    *one = (Connection){.fd = socket(AF_INET, SOCK_STREAM, 0), .kind = kind, .room = 64};
    if (one->fd < 0 || connect(one->fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    if (setsockopt(one->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) die("setsockopt");
    if (fcntl(one->fd, F_SETFL, O_NONBLOCK)) die("fcntl");
    one->in = resized(NULL, IN_BYTES), one->due = resized(NULL, 8 * one->room);
    watch(one, EPOLL_CTL_ADD);
}

static void read_frames(void) {
    for (int n = 0; n < 3; n++) {
        uint8_t size[4];
        if (fread(size, 1, 4, stdin) != 4) die("the frames end early");
        frames[n].size = 4 + get32(size);
        frames[n].bytes = resized(NULL, frames[n].size);
        memcpy(frames[n].bytes, size, 4);
        if (fread(frames[n].bytes + 4, 1, frames[n].size - 4, stdin) != frames[n].size - 4) die("the frames end early");
    }
}

int main(int count, char **words) {
    if (count != 9) die("usage: open_loop HOST PORT RATE SECONDS CONNECTIONS BATCH_AT OFFSET_AT FIRST_OFFSET");
    int64_t interval = (int64_t)(1e9 / atof(words[3]));
    int each = atoi(words[5]), all = 2 * each + 1;
    batch_at = strtoul(words[6], NULL, 10), offset_at = strtoul(words[7], NULL, 10), next_offset = atoll(words[8]);
    make_crc_table();
    read_frames();
    put64(frames[CONSUME].bytes + offset_at, next_offset);
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* the default of 50 us would be most of what is measured */
    struct sched_param first = {.sched_priority = PRIORITY};
    sched_setscheduler(0, SCHED_FIFO, &first);    /* before the loads on this core; without the right to it, the lateness shows */
    if ((selector = epoll_create1(0)) < 0) die("epoll");
    Connection *connections = resized(NULL, (size_t)all * sizeof *connections);
    for (int n = 0; n < all; n++) connected(connections + n, n < each ? PRODUCE : n < 2 * each ? FETCH : CONSUME, words[1], atoi(words[2]));
    int64_t due = now_ns() + 20000000, end = due + (int64_t)(1e9 * atof(words[4])), sent = 0, under_way = 0;
    request(connections + all - 1, due);
    for (;;) {
        int64_t now = now_ns();
        for (; due <= now && due < end; due += interval, sent++) {
            note(LATE, due, now - due);
            request(connections + (sent & 1) * each + sent / 2 % each, due);
            now = now_ns();
        }
        under_way = (sent + 1) / 2 - consumed_count; /* records that the consumer does not have */
        for (int n = 0; due >= end && n < all - 1; n++) under_way += (int64_t)connections[n].under_way;
        if (due >= end && (under_way <= 0 || now > end + GRACE_S * 1000000000LL)) break;
        int64_t wait = due < end ? due - now : 10000000;
        struct timespec timeout = {.tv_sec = wait / 1000000000, .tv_nsec = wait > 0 ? wait % 1000000000 : 0};
        struct epoll_event events[EVENTS];
        int ready = epoll_pwait2(selector, events, EVENTS, &timeout, NULL);
        if (ready < 0 && errno != EINTR) die("epoll");
        for (int n = 0; n < ready; n++) {
            Connection *one = events[n].data.ptr;
            if (events[n].events & EPOLLOUT) flush(one);
            if (events[n].events & ~(uint32_t)EPOLLOUT) receive(one);
        }
    }
    for (int n = 0; n < all - 1; n++)
        for (Connection *one = connections + n; one->under_way; one->under_way--, one->first = (one->first + 1) % one->room)
            note(one->kind, one->due[one->first], -1);
    for (int64_t missing = (sent + 1) / 2 - consumed_count; missing > 0; missing--) note(CONSUME, end, -1);
    if (fwrite(samples, 24, sample_count, stdout) != sample_count || fflush(stdout)) die("write");
    return 0;
}
