/*
 * relay PORT UPSTREAM_PORT: relays from 127.0.0.1 to 127.0.0.1 with a PROXY v1 header, in one thread.
 * It does the minimum: no limits, no timeouts, no counters, no log. Only `npm run bench -- proxy` uses it, as the
 * baseline for the engines. It sends no header for a client that sends nothing.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUFFER 65536
#define HEADER 108
#define PIPE 1048576
#define POOL 16
#define EVENTS 256
/* After this many full reads in a row, a transfer is large: the relay splices it from then on. */
#define LARGE 2

struct connection;

/* One socket, and the data that was read from it and not yet sent to the other socket. */
struct side {
  struct connection *connection;
  struct side *other;
  int fd, is_ready, is_greeted, has_out, saw_end, sent_end, large, in_pipe, pipe[2];
  char *rest;
  size_t rest_at, rest_size;
};

struct connection {
  struct side client, upstream;
  struct sockaddr_in source;
  struct connection *next_dead;
  int is_dead;
};

static int poller, pool_size, pool[POOL][2], listen_port;
static char buffer[HEADER + BUFFER];
static struct connection *dead;

static void check(int result, const char *what) {
  if (result >= 0) return;
  perror(what);
  exit(1);
}

static void watch(int operation, struct side *side, unsigned events) {
  struct epoll_event event = {.events = events | EPOLLET | EPOLLRDHUP, .data.ptr = side};
  check(epoll_ctl(poller, operation, side->fd, &event), "epoll_ctl");
}

static void drop_pipe(struct side *side) {
  if (side->pipe[0] == 0) return;
  if (side->in_pipe == 0 && pool_size < POOL) memcpy(pool[pool_size++], side->pipe, sizeof side->pipe);
  else close(side->pipe[0]), close(side->pipe[1]);
}

static int take_pipe(struct side *side) {
  if (side->pipe[0] != 0) return 1;
  if (pool_size > 0) memcpy(side->pipe, pool[--pool_size], sizeof side->pipe);
  else if (pipe2(side->pipe, O_NONBLOCK) < 0) return side->pipe[0] = 0;
  else fcntl(side->pipe[1], F_SETPIPE_SZ, PIPE);
  return 1;
}

/* Closes the connection. Its memory is freed after the batch of events, because later events may refer to it. */
static void finish(struct connection *connection) {
  if (connection->is_dead) return;
  connection->is_dead = 1;
  connection->next_dead = dead;
  dead = connection;
  for (struct side *side = &connection->client;; side = &connection->upstream) {
    close(side->fd);
    drop_pipe(side);
    free(side->rest);
    if (side == &connection->upstream) return;
  }
}

/* The socket is full: its next EPOLLOUT continues the transfer. */
static int wait_for(struct side *side) {
  if (errno != EAGAIN) return -1;
  if (!side->has_out) watch(EPOLL_CTL_MOD, side, EPOLLIN | EPOLLOUT);
  side->has_out = 1;
  return 0;
}

static int send_all(struct side *from, char *data, size_t size) {
  ssize_t sent = send(from->other->fd, data, size, MSG_NOSIGNAL);
  if (sent == (ssize_t)size) return 1;
  if (sent < 0 && errno != EAGAIN) return -1;
  if (sent < 0) sent = 0;
  from->rest = malloc(size - sent);
  from->rest_at = 0;
  from->rest_size = size - sent;
  memcpy(from->rest, data + sent, from->rest_size);
  errno = EAGAIN;
  return wait_for(from->other);
}

static int greet(struct side *client, char **data, size_t size) {
  struct connection *connection = client->connection;
  char header[HEADER], address[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, &connection->source.sin_addr, address, sizeof address);
  int length = snprintf(header, sizeof header, "PROXY TCP4 %s 127.0.0.1 %d %d\r\n", address,
                        ntohs(connection->source.sin_port), listen_port);
  client->is_greeted = 1;
  *data -= length;
  memcpy(*data, header, length);
  return length + size;
}

/* Moves data from one socket to the other. -1: the connection is broken; 0: wait for the next event; 1: call again. */
static int move(struct side *from) {
  struct side *to = from->other;
  if (from->rest != NULL) {
    ssize_t sent = send(to->fd, from->rest + from->rest_at, from->rest_size - from->rest_at, MSG_NOSIGNAL);
    if (sent < 0) return wait_for(to);
    if ((from->rest_at += sent) < from->rest_size) return 1;
    free(from->rest);
    from->rest = NULL;
    return 1;
  }
  if (from->in_pipe > 0) {
    ssize_t sent = splice(from->pipe[0], NULL, to->fd, NULL, from->in_pipe, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (sent < 0) return wait_for(to);
    from->in_pipe -= sent;
    return 1;
  }
  if (from->saw_end) {
    if (!from->sent_end && !to->sent_end) shutdown(to->fd, SHUT_WR);
    from->sent_end = 1;
    return 0;
  }
  if (from->large >= LARGE && take_pipe(from)) {
    ssize_t got = splice(from->fd, NULL, from->pipe[1], NULL, PIPE, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (got < 0) return errno == EAGAIN ? 0 : -1;
    if (got == 0) from->saw_end = 1;
    from->in_pipe = got;
    return 1;
  }
  char *data = buffer + HEADER;
  ssize_t got = recv(from->fd, data, BUFFER, 0);
  if (got < 0) return errno == EAGAIN ? 0 : -1;
  if (got == 0) from->saw_end = 1;
  from->large = got == BUFFER ? from->large + 1 : 0;
  size_t size = got;
  if (!from->is_greeted) size = greet(from, &data, size);
  if (size == 0) return 1;
  int result = send_all(from, data, size);
  /* A short read has emptied the socket. Later data causes another event. */
  return result == 1 && got > 0 && got < BUFFER ? 0 : result;
}

static void pump(struct side *from) {
  struct connection *connection = from->connection;
  if (connection->is_dead || !connection->upstream.is_ready) return;
  int result;
  do result = move(from);
  while (result > 0);
  if (result < 0 || (from->sent_end && from->other->sent_end)) finish(connection);
}

static void take_clients(int listener, struct sockaddr_in *upstream) {
  for (;;) {
    struct sockaddr_in source;
    socklen_t size = sizeof source;
    int fd = accept4(listener, (struct sockaddr *)&source, &size, SOCK_NONBLOCK);
    if (fd < 0) return;
    struct connection *connection = calloc(1, sizeof *connection);
    struct side *client = &connection->client, *other = &connection->upstream;
    *client = (struct side){.connection = connection, .other = other, .fd = fd};
    *other = (struct side){.connection = connection, .other = client, .is_greeted = 1, .has_out = 1};
    connection->source = source;
    other->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    check(other->fd, "socket");
    setsockopt(other->fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (connect(other->fd, (struct sockaddr *)upstream, sizeof *upstream) < 0 && errno != EINPROGRESS) {
      finish(connection);
      continue;
    }
    watch(EPOLL_CTL_ADD, client, EPOLLIN);
    watch(EPOLL_CTL_ADD, other, EPOLLIN | EPOLLOUT);
  }
}

static void handle(struct side *side, unsigned events) {
  struct connection *connection = side->connection;
  if (connection->is_dead) return;
  if (events & EPOLLERR) {
    finish(connection);
    return;
  }
  if (side == &connection->upstream && !side->is_ready && events & EPOLLOUT) side->is_ready = 1;
  if (events & EPOLLOUT) pump(side->other);
  if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP)) pump(side);
}

int main(int count, char **arguments) {
  if (count != 3) return 2;
  listen_port = atoi(arguments[1]);
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(listen_port)};
  local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  struct sockaddr_in upstream = local;
  upstream.sin_port = htons(atoi(arguments[2]));
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
  /* Accepted sockets inherit this option. */
  setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  check(bind(listener, (struct sockaddr *)&local, sizeof local), "bind");
  check(listen(listener, 4096), "listen");
  poller = epoll_create1(0);
  struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS];
  check(epoll_ctl(poller, EPOLL_CTL_ADD, listener, &wanted), "epoll_ctl");
  for (;;) {
    int ready = epoll_wait(poller, events, EVENTS, -1);
    for (int index = 0; index < ready; index++) {
      if (events[index].data.ptr == NULL) take_clients(listener, &upstream);
      else handle(events[index].data.ptr, events[index].events);
    }
    while (dead != NULL) {
      struct connection *next = dead->next_dead;
      free(dead);
      dead = next;
    }
  }
}
