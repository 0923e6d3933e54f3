/* Sessions, checkpoints, cancelling, threads; and a value continued in another process. */
#include "check.h"
#include <pthread.h>
#include <signal.h>

#define STORY "Once upon a time a small machine learned to speak. It said little, and what it said was true. "

static lean_context *long_context(void) {
  lean_context *context = text_context(STORY);
  for (int i = 0; i < 15; i++) lean_context_add_text(context, STORY, Z, NULL);
  return context;
}

/* What a session would say next. */
static void say(lean_session *session, const lean_type *type, char *out, size_t size) {
  lean_stream *stream = NULL;
  out[0] = 0;
  OK(lean_session_generate(session, type, NULL, &stream, &e));
  CHECK(drain(stream, out, size) == LEAN_END);
  lean_stream_free(stream);
}

static void test_checkpoints(const lean_model *model, const lean_type *type, const char *file) {
  char first[2048], second[2048];
  lean_session *session = open_session(model, LEAN_NONE), *other = NULL;
  lean_context *context = text_context(STORY), *more = text_context("And then? ");
  lean_checkpoint *checkpoint = NULL, *copy = NULL;
  lean_bytes *bytes = NULL, *json = NULL;
  const uint8_t *data = NULL;
  const uint32_t *ids = NULL;
  size_t length = 0, count = 0, reused = 0;
  uint64_t written = 0;
  int32_t how = -1;
  bool can = true;
  OK(lean_session_append(session, context, NULL, &e));
  OK(lean_session_checkpoint(session, &checkpoint, &e));
  say(session, type, first, sizeof first);

  /* Shared, from bytes, from a file: the same continuation. */
  OK(lean_session_restore(model, checkpoint, LEAN_RESTORE_EXACT, NULL, &other, &e));
  OK(lean_session_restored(other, &how, &e));
  OK(lean_session_can_resume(other, &can, &e));
  CHECK(how == LEAN_RESTORED_SHARED && !can);
  REFUSED(lean_session_resume(other, NULL, &(lean_stream *){NULL}, &e));
  say(other, type, second, sizeof second);
  CHECK(strcmp(first, second) == 0);
  lean_session_free(other);

  OK(lean_checkpoint_to_bytes(checkpoint, &bytes, &e));
  OK(lean_bytes_data(bytes, &data, &length, &e));
  OK(lean_checkpoint_from_bytes(data, length, &copy, &e));
  OK(lean_checkpoint_tokens(copy, &ids, &count, &e));
  CHECK(count == token_count(session));
  OK(lean_checkpoint_info(copy, &json, &e));
  lean_bytes_free(json);
  OK(lean_session_restore(model, copy, LEAN_RESTORE_EXACT, NULL, &other, &e));
  OK(lean_session_restored(other, &how, &e));
  CHECK(how == LEAN_RESTORED_IMPORTED);
  say(other, type, second, sizeof second);
  CHECK(strcmp(first, second) == 0);
  lean_session_free(other);
  lean_checkpoint_free(copy);

  OK(lean_session_restore(model, checkpoint, LEAN_RESTORE_REPREFILL, NULL, &other, &e));
  say(other, type, second, sizeof second);
  CHECK(strcmp(first, second) == 0);
  lean_session_free(other);
  REFUSED(lean_session_restore(model, checkpoint, 99, NULL, &other, &e));

  /* One flipped bit anywhere is an error. */
  uint8_t *damaged = malloc(length);
  size_t refused = 0, tried = 0;
  for (size_t at = 0; at < length; at += length / 61 + 1) {
    memcpy(damaged, data, length);
    damaged[at] ^= (uint8_t)(1u << (at % 8));
    lean_status status = lean_checkpoint_from_bytes(damaged, length, &copy, NULL);
    refused += status == LEAN_BAD_CHECKPOINT || status == LEAN_INCOMPATIBLE;
    tried++;
  }
  CHECK(refused == tried && tried > 30);
  free(damaged);
  lean_bytes_free(bytes);

  /* Compressed, as a delta of its parent, and what is in it. */
  lean_checkpoint *child = NULL;
  lean_session *longer = NULL;
  const uint8_t *small = NULL;
  size_t small_length = 0;
  OK(lean_session_restore(model, checkpoint, LEAN_RESTORE_EXACT, NULL, &longer, &e));
  say(longer, type, first, sizeof first);
  OK(lean_session_checkpoint(longer, &child, &e));
  say(longer, type, first, sizeof first);
  for (int compress = 0; compress < 2; compress++) {
    OK(lean_checkpoint_to_bytes_with(child, compress, checkpoint, &bytes, &e));
    OK(lean_bytes_data(bytes, &small, &small_length, &e));
    OK(lean_checkpoint_inspect(small, small_length, &json, &e));
    lean_bytes_free(json);
    OK(lean_checkpoint_from_delta(small, small_length, checkpoint, &copy, &e));
    OK(lean_session_restore(model, copy, LEAN_RESTORE_EXACT, NULL, &other, &e));
    say(other, type, second, sizeof second);
    CHECK(strcmp(first, second) == 0);
    lean_session_free(other);
    lean_checkpoint_free(copy);
    lean_bytes_free(bytes);
  }
  REFUSED(lean_checkpoint_to_bytes_with(NULL, 1, NULL, &bytes, &e));
  REFUSED(lean_checkpoint_from_delta((const uint8_t *)"x", 1, NULL, &copy, &e));
  FAILS(LEAN_BAD_CHECKPOINT, lean_checkpoint_inspect((const uint8_t *)"x", 1, &json, &e));
  lean_checkpoint_free(child);
  lean_session_free(longer);

  OK(lean_checkpoint_save(checkpoint, file, Z, &written, &e));
  CHECK(written == length);
  OK(lean_checkpoint_load(file, Z, &copy, &e));
  lean_checkpoint_free(copy);
  FAILS(LEAN_IO, lean_checkpoint_load("no/such/file", Z, &copy, &e));
  FAILS(LEAN_IO, lean_checkpoint_save(checkpoint, "no/such/folder/file", Z, NULL, &e));

  /* A checkpoint as the start of a stateless call, of an append never. */
  lean_output *output = NULL;
  const char *text = NULL;
  lean_context *empty = NULL;
  OK(lean_context_new(&empty, &e));
  OK(lean_context_set_checkpoint(empty, checkpoint, &e));
  OK(lean_generate(model, empty, type, NULL, &output, &e));
  OK(lean_output_text(output, &text, NULL, &e));
  CHECK(strcmp(text, first) == 0);
  lean_output_free(output);
  REFUSED(lean_session_append(session, empty, NULL, &e));
  OK(lean_context_set_checkpoint(empty, NULL, &e));
  lean_context_free(empty);

  /* A fork goes its own way; common prefixes are reused. */
  OK(lean_session_fork(session, &other, &e));
  OK(lean_session_append(other, more, NULL, &e));
  CHECK(token_count(other) > token_count(session));
  OK(lean_session_set_context(other, context, NULL, &reused, &e));
  CHECK(token_count(other) == token_count(session) && reused + 1 >= token_count(session));
  OK(lean_session_truncate(other, 3, &e));
  CHECK(token_count(other) == 3);
  REFUSED(lean_session_truncate(other, 4, &e));
  lean_session_free(session); /* In any order. */
  say(other, type, second, sizeof second);
  lean_session_free(other);
  lean_checkpoint_free(checkpoint);
  lean_context_free(context);
  lean_context_free(more);
}

static void test_forward(const lean_model *model) {
  lean_session *session = open_session(model, 64);
  size_t vocab = 0, n = 0;
  OK(lean_session_forward(session, (uint32_t[]){1, 5, 9}, 3, NULL, 0, &vocab, &e));
  float *logits = calloc(vocab, sizeof *logits);
  OK(lean_session_forward(session, (uint32_t[]){2}, 1, logits, vocab, &n, &e));
  float sum = 0;
  for (size_t i = 0; i < vocab; i++) sum += logits[i] * logits[i];
  CHECK(n == vocab && sum > 0 && token_count(session) == 4);
  REFUSED(lean_session_forward(session, (uint32_t[]){0xffffffff}, 1, logits, vocab, NULL, &e));
  REFUSED(lean_session_forward(session, (uint32_t[]){2}, 1, NULL, 1, NULL, &e));
  CHECK(token_count(session) == 4);
  free(logits);
  lean_session_free(session);
}

static lean_cancel *signalled;

static void on_signal(int number) {
  (void)number;
  lean_cancel_trigger(signalled);
}

static bool raise_signal(void *user, uint64_t done, uint64_t total) {
  (void)done, (void)total;
  ++*(int *)user;
  raise(SIGUSR1);
  return true;
}

static bool stop_now(void *user, uint64_t done, uint64_t total) {
  (void)done, (void)total;
  ++*(int *)user;
  return false;
}

static void *run_stream(void *stream) {
  lean_event event;
  lean_status status;
  lean_event_init(&event, sizeof event);
  while ((status = lean_stream_next(stream, LEAN_WAIT_FOREVER, &event, NULL)) == LEAN_OK) continue;
  return (void *)(intptr_t)status;
}

/* From a callback, a signal handler, another thread; the session is as before each time. */
static void test_cancel(const lean_model *model) {
  lean_session *session = open_session(model, LEAN_NONE);
  lean_context *context = long_context();
  lean_type *text = NULL;
  lean_stream *stream = NULL;
  lean_prefill_options prefill;
  int calls = 0;
  lean_prefill_options_init(&prefill, sizeof prefill);
  prefill.progress = stop_now;
  prefill.progress_user = &calls;
  FAILS(LEAN_CANCELLED, lean_session_append(session, context, &prefill, &e));
  CHECK(calls == 1 && token_count(session) == 0);

  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigaction(SIGUSR1, &action, NULL);
  OK(lean_cancel_new(&signalled, &e));
  prefill.progress = raise_signal;
  prefill.cancel = signalled;
  FAILS(LEAN_CANCELLED, lean_session_set_context(session, context, &prefill, NULL, &e));
  CHECK(calls == 2 && token_count(session) == 0);
  lean_cancel_free(signalled);

  /* Endless text, stopped from outside. */
  pthread_t thread;
  void *status = NULL;
  lean_generate_options options;
  lean_generate_options_init(&options, sizeof options);
  OK(lean_type_text(LEAN_NONE, &text, &e));
  OK(lean_session_append(session, context, NULL, &e));
  size_t before = token_count(session);
  OK(lean_session_generate(session, text, &options, &stream, &e));
  lean_event event;
  lean_event_init(&event, sizeof event);
  OK(lean_stream_next(stream, LEAN_WAIT_FOREVER, &event, &e));
  OK(lean_stream_cancel(stream, &e));
  pthread_create(&thread, NULL, run_stream, stream);
  pthread_join(thread, &status);
  CHECK((intptr_t)status == LEAN_CANCELLED);
  FAILS(LEAN_CANCELLED, lean_stream_next(stream, 0, &event, &e));
  FAILS(LEAN_CANCELLED, lean_stream_finish(stream, &(lean_output *){NULL}, &e));
  CHECK(token_count(session) == before);
  lean_stream_free(stream);

  /* One flag for two streams; a stream's own cancel is not the flag's. */
  lean_stream *second = NULL;
  lean_session *fork = NULL;
  lean_cancel *flag = NULL;
  OK(lean_cancel_new(&flag, &e));
  OK(lean_session_fork(session, &fork, &e));
  options.cancel = flag;
  OK(lean_session_generate(session, text, &options, &stream, &e));
  OK(lean_session_generate(fork, text, &options, &second, &e));
  OK(lean_stream_cancel(stream, &e));
  FAILS(LEAN_CANCELLED, lean_stream_next(stream, 0, &event, &e));
  CHECK(!lean_cancel_is_triggered(flag));
  OK(lean_stream_next(second, LEAN_WAIT_FOREVER, &event, &e));
  lean_cancel_trigger(flag);
  lean_cancel_free(flag);
  CHECK(run_stream(second) == (void *)(intptr_t)LEAN_CANCELLED);
  lean_stream_free(stream);
  lean_session_free(fork); /* Before its stream. */
  lean_stream_free(second);

  /* Kept, when asked for. */
  options.cancel = NULL;
  options.flags = LEAN_GENERATE_KEEP_PARTIAL;
  OK(lean_session_generate(session, text, &options, &stream, &e));
  for (int i = 0; i < 3; i++) OK(lean_stream_next(stream, LEAN_WAIT_FOREVER, &event, &e));
  OK(lean_stream_cancel(stream, &e));
  CHECK(run_stream(stream) == (void *)(intptr_t)LEAN_CANCELLED);
  lean_stream_free(stream);
  CHECK(token_count(session) > before);
  lean_type_free(text);
  lean_context_free(context);
  lean_session_free(session);
}

struct worker {
  const lean_model *model;
  const lean_context *context;
  const lean_type *type;
  char text[2048];
};

static void *work(void *user) {
  struct worker *w = user;
  lean_output *output = NULL;
  const char *text = "";
  if (lean_generate(w->model, w->context, w->type, NULL, &output, NULL) == LEAN_OK) lean_output_text(output, &text, NULL, NULL);
  snprintf(w->text, sizeof w->text, "%s", text);
  lean_output_free(output);
  return NULL;
}

/* const handles, used by all threads at once, give each what they give one alone. */
static void test_threads(const lean_model *model, const lean_type *type) {
  struct worker workers[4];
  pthread_t threads[4];
  lean_context *context = text_context(STORY);
  struct worker alone = {model, context, type, ""};
  work(&alone);
  for (int i = 0; i < 4; i++) {
    workers[i] = alone;
    workers[i].text[0] = 0;
    pthread_create(&threads[i], NULL, work, &workers[i]);
  }
  bool same = true;
  for (int i = 0; i < 4; i++) {
    pthread_join(threads[i], NULL);
    same = same && strcmp(workers[i].text, alone.text) == 0;
  }
  CHECK(same && alone.text[0] == '{');
  lean_context_free(context);
}

void test_sessions(const char *path) {
  lean_model *model = load(path);
  lean_type *type = expr(VALUE_TYPE);
  char file[1024];
  const char *folder = getenv("TMPDIR");
  snprintf(file, sizeof file, "%s/lean-harness.%p.ckpt", folder == NULL ? "/tmp" : folder, (void *)file);
  test_checkpoints(model, type, file);
  remove(file);
  test_forward(model);
  test_cancel(model);
  test_threads(model, type);
  lean_type_free(type);
  lean_model_free(model);
}

static void write_text(const char *file, const char *suffix, const char *text) {
  char path[1024];
  snprintf(path, sizeof path, "%s.%s", file, suffix);
  FILE *out = fopen(path, "wb");
  CHECK(out != NULL && fwrite(text, 1, strlen(text), out) == strlen(text) && fclose(out) == 0);
}

static void read_text(const char *file, const char *suffix, char *text, size_t size) {
  char path[1024];
  snprintf(path, sizeof path, "%s.%s", file, suffix);
  FILE *in = fopen(path, "rb");
  text[in == NULL ? 0 : fread(text, 1, size - 1, in)] = 0;
  CHECK(in != NULL && fclose(in) == 0);
}

/* First process: half a value, a checkpoint in its middle, and what this process says next. */
void cut(const char *path, const char *file) {
  char begun[2048] = "", rest[2048] = "";
  lean_model *model = load(path);
  lean_session *session = open_session(model, LEAN_NONE);
  lean_context *context = text_context("Report an issue as JSON: ");
  lean_type *type = expr(VALUE_TYPE);
  lean_stream *stream = NULL;
  lean_checkpoint *checkpoint = NULL;
  lean_generate_options options;
  lean_generate_options_init(&options, sizeof options);
  options.temperature = 0.8f; /* So that the state of the sampler has to survive as well. */
  options.seed = 12345;
  OK(lean_session_append(session, context, NULL, &e));
  OK(lean_session_generate(session, type, &options, &stream, &e));
  lean_event event;
  lean_event_init(&event, sizeof event);
  while (strstr(begun, "\"title\"") == NULL && lean_stream_next(stream, LEAN_WAIT_FOREVER, &event, NULL) == LEAN_OK)
    strncat(begun, event.text, sizeof begun - strlen(begun) - 1);
  OK(lean_stream_checkpoint(stream, &checkpoint, &e));
  OK(lean_checkpoint_save(checkpoint, file, Z, NULL, &e));
  CHECK(drain(stream, rest, sizeof rest) == LEAN_END);
  CHECK(begun[0] == '{' && strlen(rest) > 4 && rest[strlen(rest) - 1] == '}');
  write_text(file, "begun", begun);
  write_text(file, "rest", rest);
  lean_checkpoint_free(checkpoint);
  lean_stream_free(stream);
  lean_type_free(type);
  lean_context_free(context);
  lean_session_free(session);
  lean_model_free(model);
}

/* Second process: the same remaining bytes, and the whole value. */
void resume(const char *path, const char *file) {
  char begun[2048], want[2048], rest[2048] = "", whole[4096];
  read_text(file, "begun", begun, sizeof begun);
  read_text(file, "rest", want, sizeof want);
  lean_model *model = load(path);
  lean_checkpoint *checkpoint = NULL;
  lean_session *session = NULL;
  lean_stream *stream = NULL;
  lean_output *output = NULL;
  const char *text = NULL;
  bool can = false;
  OK(lean_checkpoint_load(file, Z, &checkpoint, &e));
  OK(lean_session_restore(model, checkpoint, LEAN_RESTORE_EXACT, NULL, &session, &e));
  OK(lean_session_can_resume(session, &can, &e));
  CHECK(can);
  OK(lean_session_resume(session, NULL, &stream, &e));
  CHECK(drain(stream, rest, sizeof rest) == LEAN_END);
  CHECK(strcmp(rest, want) == 0);
  OK(lean_stream_finish(stream, &output, &e));
  OK(lean_output_text(output, &text, NULL, &e));
  snprintf(whole, sizeof whole, "%s%s", begun, want);
  CHECK(strcmp(text, whole) == 0);
  printf("     %s | %s\n", begun, rest);
  lean_output_free(output);
  lean_stream_free(stream);
  lean_session_free(session);
  lean_checkpoint_free(checkpoint);
  lean_model_free(model);
}
