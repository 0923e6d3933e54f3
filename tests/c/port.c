/* The bridge's protocol in the process: its bytes, its states, its threads. */
#include "check.h"
#include <dirent.h>
#include <pthread.h>
#include <time.h>

/* Long enough for a loaded machine; a wait that reaches it has hung. */
#define PATIENCE 100000u
#define KIND_HELLO_ACK 1
#define KIND_LOAD 2
#define KIND_GENERATE 5
#define KIND_SHUTDOWN 0x10
#define FLAG_END 1
#define FLAG_ERROR 2
#define FLAG_CRITICAL 4
#define HEADER 16

static void put(uint8_t *at, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static uint32_t get(const uint8_t *at, int bytes) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; i++) value |= (uint32_t)at[i] << (8 * i);
  return value;
}

/* Writes a frame, returns its size. */
static size_t frame(uint8_t *out, uint32_t request, uint32_t kind, uint32_t flags, const char *head, size_t head_length, const char *tail) {
  size_t tail_length = strlen(tail);
  put(out, (uint32_t)(head_length + tail_length), 4), put(out + 4, request, 4), put(out + 8, kind, 2);
  put(out + 10, flags, 2), put(out + 12, (uint32_t)head_length, 4);
  if (head_length > 0) memcpy(out + HEADER, head, head_length);
  if (tail_length > 0) memcpy(out + HEADER + head_length, tail, tail_length);
  return HEADER + head_length + tail_length;
}

static lean_port *open_port(void) {
  lean_port *port = NULL;
  OK(lean_port_open(&port, &e));
  return port;
}

static lean_status send_frame(const lean_port *port, uint32_t request, uint32_t kind, const char *head, size_t head_length, const char *tail) {
  uint8_t out[512];
  size_t size = frame(out, request, kind, kind == KIND_HELLO_ACK ? 0 : FLAG_CRITICAL, head, head_length, tail);
  return lean_port_send(port, out, size, PATIENCE, NULL);
}

/* Minor 0, credit 32. */
static lean_status greet(const lean_port *port) { return send_frame(port, 0, KIND_HELLO_ACK, "\0\x20\0", 3, ""); }

static lean_status load_echo(const lean_port *port, uint32_t request, const char *path) {
  char head[128] = {0};
  head[0] = (char)strlen(path);
  memcpy(head + 1, path, strlen(path));
  return send_frame(port, request, KIND_LOAD, head, strlen(path) + 5, "");
}

/* On model 1, with events. */
static lean_status generate(const lean_port *port, uint32_t request) {
  return send_frame(port, request, KIND_GENERATE, "\1\1\0\0\0\1", 6, "{\"blocks\":[{\"text\":\"a b\"}],\"type\":{\"text\":{\"max_chars\":null}}}");
}

/* Receives frames up to the end of a request; returns how many, and the flags of the last. */
static int until_end(const lean_port *port, uint32_t request, uint32_t *flags) {
  int count = 0;
  for (bool ended = false; !ended;) {
    lean_bytes *bytes = NULL;
    const uint8_t *data = NULL;
    size_t length = 0, at = 0;
    if (lean_port_recv(port, PATIENCE, &bytes, NULL) != LEAN_OK || lean_bytes_data(bytes, &data, &length, NULL) != LEAN_OK) return -1;
    if (length > 8 && memcmp(data, "\x89LEAN\r\n\x1a", 8) == 0) at = 8;
    while (at + HEADER <= length) {
      bool mine = get(data + at + 4, 4) == request;
      *flags = mine ? get(data + at + 10, 2) : *flags;
      count += mine;
      ended = ended || (mine && (*flags & FLAG_END));
      at += HEADER + get(data + at, 4);
    }
    if (at != length) count = -1000000;
    lean_bytes_free(bytes);
  }
  return count;
}

static int32_t state_of(const lean_port *port) {
  int32_t state = -1;
  OK(lean_port_state(port, &state, &e));
  return state;
}

static void take_greeting(const lean_port *port) {
  lean_bytes *bytes = NULL;
  OK(lean_port_recv(port, PATIENCE, &bytes, &e));
  lean_bytes_free(bytes);
}

/* Threads of this process that belong to ports; -1 where that cannot be seen. */
static int port_threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  if (tasks == NULL) return -1;
  int count = 0;
  for (struct dirent *entry; (entry = readdir(tasks)) != NULL;) {
    char path[300], name[32] = {0};
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (file == NULL) continue;
    if (fgets(name, sizeof name, file) != NULL && (strncmp(name, "lean-port", 9) == 0 || strncmp(name, "lean-request", 12) == 0)) count++;
    fclose(file);
  }
  closedir(tasks);
  return count;
}

static void test_arguments(void) {
  lean_port *port = open_port();
  lean_cancel *other = NULL;
  lean_bytes *bytes = NULL;
  int32_t state = -1;
  uint8_t byte = 0;
  OK(lean_cancel_new(&other, &e));
  REFUSED(lean_port_open(NULL, &e));
  REFUSED(lean_port_send(NULL, &byte, 1, 0, &e));
  REFUSED(lean_port_send((lean_port *)other, &byte, 1, 0, &e));
  REFUSED(lean_port_send((lean_port *)((char *)port + 1), &byte, 1, 0, &e));
  REFUSED(lean_port_send(port, NULL, 1, 0, &e));
  REFUSED(lean_port_send(port, &byte, SIZE_MAX, 0, &e));
  REFUSED(lean_port_recv(NULL, 0, &bytes, &e));
  REFUSED(lean_port_recv((lean_port *)other, 0, &bytes, &e));
  REFUSED(lean_port_recv(port, 0, NULL, &e));
  REFUSED(lean_port_recv(port, 0, (lean_bytes **)((char *)&bytes + 1), &e));
  REFUSED(lean_port_state(NULL, &state, &e));
  REFUSED(lean_port_state(port, NULL, &e));
  REFUSED(lean_port_close(NULL, &e));
  REFUSED(lean_port_close((lean_port *)other, &e));
  CHECK(lean_port_send(NULL, NULL, 0, 0, NULL) == LEAN_INVALID_ARGUMENT);
  CHECK(bytes == NULL && state == -1);
  OK(lean_port_send(port, NULL, 0, 0, &e));
  CHECK(state_of(port) == LEAN_PORT_OPEN);
  /* What a refused call would have received is still there. */
  take_greeting(port);
  lean_port_free((lean_port *)other);
  CHECK(!lean_cancel_is_triggered(other));
  lean_port_free(port);
  lean_port_free(NULL);
  lean_cancel_free(other);
}

static void test_conversation(void) {
  lean_port *port = open_port();
  lean_bytes *bytes = NULL;
  const uint8_t *data = NULL;
  size_t length = 0;
  uint32_t flags = 0;
  OK(lean_port_recv(port, 0, &bytes, &e));
  OK(lean_bytes_data(bytes, &data, &length, &e));
  CHECK(length > 24 && memcmp(data, "\x89LEAN\r\n\x1a", 8) == 0 && get(data + 16, 2) == 0x8001);
  lean_bytes_free(bytes);
  CHECK(lean_port_recv(port, 0, &bytes, NULL) == LEAN_PENDING);
  CHECK(lean_port_recv(port, 1, &bytes, NULL) == LEAN_PENDING);
  CHECK(greet(port) == LEAN_OK && load_echo(port, 1, "echo") == LEAN_OK);
  CHECK(until_end(port, 1, &flags) == 1 && flags == FLAG_END);
  CHECK(generate(port, 2) == LEAN_OK);
  CHECK(until_end(port, 2, &flags) == 4 && flags == FLAG_END);
  CHECK(send_frame(port, 3, 0x7fff, "", 0, "") == LEAN_OK);
  CHECK(until_end(port, 3, &flags) == 1 && flags == (FLAG_END | FLAG_ERROR));
  CHECK(send_frame(port, 4, KIND_SHUTDOWN, "", 0, "") == LEAN_OK);
  CHECK(until_end(port, 4, &flags) == 1 && flags == FLAG_END);
  CHECK(lean_port_recv(port, LEAN_WAIT_FOREVER, &bytes, NULL) == LEAN_END);
  CHECK(state_of(port) == LEAN_PORT_SHUTDOWN);
  CHECK(generate(port, 5) == LEAN_END);
  OK(lean_port_close(port, &e));
  CHECK(state_of(port) == LEAN_PORT_SHUTDOWN);
  lean_port_free(port);
}

static void test_garbage_bytes(void) {
  static const struct {
    const char *what, *bytes;
    size_t length;
  } table[] = {
    {"text", "hello, is anybody there?", 24},
    {"a frame of 4 GiB", "\xff\xff\xff\xff\1\0\0\0\2\0\4\0\0\0\0\0", 16},
    {"a head longer than its body", "\4\0\0\0\1\0\0\0\2\0\4\0\5\0\0\0", 16},
    {"a frame before HELLO_ACK", "\0\0\0\0\1\0\0\0\x10\0\4\0\0\0\0\0", 16},
    {"a HELLO_ACK that is no head", "\1\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0\xff", 17},
    {"zeros", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    lean_port *port = open_port();
    lean_bytes *bytes = NULL;
    uint32_t flags = 0;
    take_greeting(port);
    CHECK(lean_port_send(port, (const uint8_t *)table[i].bytes, table[i].length, 0, NULL) == LEAN_OK);
    check(until_end(port, 0, &flags) == 1 && flags == (FLAG_END | FLAG_ERROR), table[i].what, __FILE__, __LINE__);
    CHECK(lean_port_recv(port, LEAN_WAIT_FOREVER, &bytes, NULL) == LEAN_END);
    CHECK(state_of(port) == LEAN_PORT_PROTOCOL);
    CHECK(greet(port) == LEAN_END);
    lean_port_free(port);
  }
}

static void *receive_all(void *port) {
  lean_status status;
  for (lean_bytes *bytes = NULL; (status = lean_port_recv(port, LEAN_WAIT_FOREVER, &bytes, NULL)) == LEAN_OK;) lean_bytes_free(bytes);
  return status == LEAN_END ? port : NULL;
}

/* Sends until the port is closed: at some point it waits, since nobody receives. */
static void *send_all(void *port) {
  lean_status status = LEAN_OK;
  static uint8_t unknown[1000 * HEADER];
  for (uint32_t i = 0; i < 1000; i++) frame(unknown + i * HEADER, 1000 + i, 0x7fff, FLAG_CRITICAL, "", 0, "");
  while (status == LEAN_OK) status = lean_port_send(port, unknown, sizeof unknown, LEAN_WAIT_FOREVER, NULL);
  return status == LEAN_END ? port : NULL;
}

static void *close_it(void *port) { return lean_port_close(port, NULL) == LEAN_OK ? port : NULL; }

/* Threads that run beside a close, all of which have to come back with what closing promises. */
static void test_close(void) {
  static const struct {
    const char *what, *model;
    void *(*others[4])(void *);
  } table[] = {
    {"close: nothing runs", "echo", {receive_all}},
    {"close: a value is waited for", "echo?step_ms=60000", {receive_all, receive_all, receive_all}},
    {"close: nobody receives", "echo", {send_all}},
    {"close: from two threads", "echo?step_ms=60000", {receive_all, close_it, close_it, receive_all}},
  };
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    lean_port *port = open_port();
    pthread_t threads[4];
    uint32_t flags = 0;
    bool good = greet(port) == LEAN_OK && load_echo(port, 1, table[i].model) == LEAN_OK && until_end(port, 1, &flags) == 1;
    good = good && generate(port, 2) == LEAN_OK && load_echo(port, 3, "echo?load_steps=1000&load_ms=1000") == LEAN_OK;
    int count = 0;
    for (; count < 4 && table[i].others[count] != NULL; count++) pthread_create(&threads[count], NULL, table[i].others[count], port);
    OK(lean_port_close(port, &e));
    for (int t = 0; t < count; t++) {
      void *result = NULL;
      pthread_join(threads[t], &result);
      good = good && result != NULL;
    }
    check(good, table[i].what, __FILE__, __LINE__);
    /* The system may list a thread for a moment after it was joined. */
    for (int look = 0; look < 6000 && port_threads() > 0; look++) nanosleep(&(struct timespec){0, 10000000}, NULL);
    check(port_threads() <= 0, "no thread of a closed port is left", __FILE__, __LINE__);
    OK(lean_port_close(port, &e));
    CHECK(state_of(port) == LEAN_PORT_CLOSED);
    lean_bytes *bytes = NULL;
    CHECK(lean_port_recv(port, LEAN_WAIT_FOREVER, &bytes, NULL) == LEAN_END && bytes == NULL);
    CHECK(greet(port) == LEAN_END);
    lean_port_free(port);
  }
}

static void test_full(void) {
  static uint8_t piece[64 << 10];
  lean_port *port = open_port();
  uint32_t flags = 0, request = 100;
  int pieces = 0;
  lean_status status = LEAN_OK;
  CHECK(greet(port) == LEAN_OK && load_echo(port, 1, "echo") == LEAN_OK && until_end(port, 1, &flags) == 1);
  while (pieces < 64) {
    for (size_t at = 0; at < sizeof piece; at += HEADER) frame(piece + at, request++, 0x7fff, FLAG_CRITICAL, "", 0, "");
    status = lean_port_send(port, piece, sizeof piece, 0, NULL);
    if (status != LEAN_OK) break;
    pieces++;
  }
  CHECK(status == LEAN_PENDING && pieces >= 1);
  /* Of what was not taken nothing was: the last answer is that of the last frame of the last piece. */
  CHECK(until_end(port, request - 1 - sizeof piece / HEADER, &flags) == 1 && flags == (FLAG_END | FLAG_ERROR));
  CHECK(generate(port, 2) == LEAN_OK);
  CHECK(until_end(port, 2, &flags) == 4 && flags == FLAG_END);
  lean_port_free(port);
}

void test_port(void) {
  test_arguments();
  test_conversation();
  test_garbage_bytes();
  test_close();
  test_full();
}
