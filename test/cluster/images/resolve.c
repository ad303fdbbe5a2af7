/*
 * NAME...: prints the first IPv4 address of each name, as the C library resolves it, one line per name.
 * all NAME...: prints all addresses of each name, IPv4 first.
 * sleep: waits for a signal to end.
 * get NAME: sends one GET of / to port 80 of the name's first address, and prints the answer.
 * repeat SECONDS MS NAME...: looks up the names in turn, at most one per MS milliseconds. Prints the number of lookups, the number of failures, and the slowest lookup in ms.
 */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int family = AF_INET;

static struct addrinfo *resolved(const char *name, int *error) {
  struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM}, *found = NULL;
  *error = getaddrinfo(name, "80", &hints, &found);
  return *error == 0 ? found : NULL;
}

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static int get(const char *name) {
  int error;
  struct addrinfo *found = resolved(name, &error);
  if (found == NULL) return puts(gai_strerror(error)), 1;
  int socket_fd = socket(found->ai_family, SOCK_STREAM, 0);
  struct timeval limit = {.tv_sec = 10};
  setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket_fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  char text[4096];
  int length = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", name);
  if (connect(socket_fd, found->ai_addr, found->ai_addrlen) != 0 || write(socket_fd, text, length) != length)
    return perror(name), 1;
  for (ssize_t size; (size = read(socket_fd, text, sizeof text)) > 0;) fwrite(text, 1, size, stdout);
  return 0;
}

static int repeat(int seconds, int period_ms, char **names, int count) {
  int lookups = 0, failed = 0;
  double slowest = 0;
  for (double start = now_ms(); now_ms() - start < seconds * 1e3; lookups++) {
    int error;
    double asked = now_ms();
    struct addrinfo *found = resolved(names[lookups % count], &error);
    double took = now_ms() - asked;
    if (found == NULL) failed++;
    else freeaddrinfo(found);
    if (took > slowest) slowest = took;
    if (took < period_ms) usleep((period_ms - took) * 1e3);
  }
  printf("{\"lookups\":%d,\"failed\":%d,\"slowestMs\":%.1f}\n", lookups, failed, slowest);
  return 0;
}

/* Prints the addresses of one family, or only the first of them. */
static void print(const struct addrinfo *found, int of, int first) {
  char text[INET6_ADDRSTRLEN];
  for (; found != NULL; found = found->ai_next) {
    if (found->ai_family != of) continue;
    const void *address = of == AF_INET ? (void *)&((struct sockaddr_in *)found->ai_addr)->sin_addr
                                        : (void *)&((struct sockaddr_in6 *)found->ai_addr)->sin6_addr;
    printf(" %s", inet_ntop(of, address, text, sizeof text));
    if (first) return;
  }
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "sleep") == 0) return pause();
  if (argc == 3 && strcmp(argv[1], "get") == 0) return get(argv[2]);
  if (argc > 4 && strcmp(argv[1], "repeat") == 0) return repeat(atoi(argv[2]), atoi(argv[3]), argv + 4, argc - 4);
  int failed = 0, all = argc > 2 && strcmp(argv[1], "all") == 0;
  if (all) family = AF_UNSPEC;
  for (int i = 1 + all; i < argc; i++) {
    int error;
    struct addrinfo *found = resolved(argv[i], &error);
    if (found == NULL) {
      printf("%s %s\n", argv[i], gai_strerror(error));
      failed = 1;
      continue;
    }
    printf("%s", argv[i]);
    print(found, AF_INET, !all);
    if (all) print(found, AF_INET6, 0);
    putchar('\n');
    freeaddrinfo(found);
  }
  return failed;
}
