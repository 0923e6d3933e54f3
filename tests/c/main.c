/* The C harness: `harness test MODEL`, `harness cut MODEL FILE`, `harness resume MODEL FILE`. */
#include "check.h"

static int failed;

void check(bool ok, const char *what, const char *file, int line) {
  if (ok) {
    printf("ok   %s\n", what);
  } else {
    printf("FAIL %s (%s:%d)\n", what, file, line);
    failed = 1;
  }
  fflush(stdout);
}

bool none(lean_error *error) {
  if (error == NULL) return true;
  printf("     %s: %s\n", lean_error_name(error), lean_error_message(error, NULL));
  lean_error_free(error);
  return false;
}

/* Without these nothing else makes sense, so they end the program. */
static void *need(void *handle, lean_error *error, const char *what) {
  if (handle == NULL) {
    none(error);
    check(false, what, __FILE__, __LINE__);
    exit(1);
  }
  return handle;
}

lean_model *load(const char *path) {
  lean_model *model = NULL;
  lean_error *error = NULL;
  lean_load_options options;
  lean_load_options_init(&options, sizeof options);
  options.backend = LEAN_BACKEND_CPU;
  options.threads = 2;
  lean_model_load(path, Z, &options, &model, &error);
  return need(model, error, "a model loads");
}

lean_session *open_session(const lean_model *model, uint64_t context) {
  lean_session *session = NULL;
  lean_error *error = NULL;
  lean_session_options options;
  lean_session_options_init(&options, sizeof options);
  options.context = context;
  lean_session_new(model, &options, &session, &error);
  return need(session, error, "a session opens");
}

lean_type *expr(const char *json) {
  lean_type *type = NULL;
  lean_error *error = NULL;
  lean_type_expr(json, Z, &type, &error);
  return need(type, error, json);
}

lean_context *text_context(const char *text) {
  lean_context *context = NULL;
  lean_error *error = NULL;
  lean_context_new(&context, &error);
  need(context, error, "a context is made");
  if (lean_context_add_text(context, text, Z, &error) != LEAN_OK) need(NULL, error, "text is added");
  return context;
}

size_t token_count(lean_session *session) {
  size_t count = SIZE_MAX;
  lean_error *error = NULL;
  lean_session_tokens(session, NULL, 0, &count, &error);
  none(error);
  return count;
}

lean_status drain(lean_stream *stream, char *out, size_t size) {
  lean_status status;
  lean_event event;
  lean_error *error = NULL;
  lean_event_init(&event, sizeof event);
  while ((status = lean_stream_next(stream, LEAN_WAIT_FOREVER, &event, &error)) == LEAN_OK) {
    size_t used = strlen(out);
    if (used + event.text_length < size) memcpy(out + used, event.text, event.text_length + 1);
  }
  none(error);
  return status;
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "test") == 0) {
    test_garbage(argv[2]);
    test_values(argv[2]);
    test_sessions(argv[2]);
    test_limits(argv[2]);
    test_many(argv[2]);
    test_adapters(argv[2]);
    test_kv();
    test_port();
  } else if (argc == 4 && strcmp(argv[1], "cut") == 0) {
    cut(argv[2], argv[3]);
  } else if (argc == 4 && strcmp(argv[1], "resume") == 0) {
    resume(argv[2], argv[3]);
  } else {
    fprintf(stderr, "usage: harness test MODEL | cut MODEL FILE | resume MODEL FILE\n");
    return 2;
  }
  return failed;
}
