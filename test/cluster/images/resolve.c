/* resolve NAME...: what the C library makes of each name, one line a name. `sleep` waits for its end. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "sleep") == 0) return pause();
  int failed = 0;
  for (int i = 1; i < argc; i++) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    int error = getaddrinfo(argv[i], NULL, &hints, &found);
    if (error != 0) {
      printf("%s %s\n", argv[i], gai_strerror(error));
      failed = 1;
      continue;
    }
    char address[INET_ADDRSTRLEN];
    inet_ntop(AF_INET, &((struct sockaddr_in *)found->ai_addr)->sin_addr, address, sizeof address);
    printf("%s %s\n", argv[i], address);
    freeaddrinfo(found);
  }
  return failed;
}
