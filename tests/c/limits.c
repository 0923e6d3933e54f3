/* Budgets, overflow, time limits, stop strings, older programs, the log. */
#include "check.h"

static void test_overflow(const lean_model *model) {
  lean_session *session = open_session(model, 16);
  lean_context *big = text_context("one two three four five six seven eight nine ten eleven twelve "
                                   "thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty");
  lean_context *small = text_context("hi");
  lean_type *type = expr("\"boolean\"");
  lean_stream *stream = NULL;
  lean_output *output = NULL;
  lean_error *error = NULL;
  lean_generate_options options;
  uint64_t needed = 0, available = 0, unknown = 5;
  size_t capacity = 0;
  OK(lean_session_capacity(session, &capacity, &e));
  CHECK(capacity == 16);
  CHECK(lean_session_append(session, big, NULL, &error) == LEAN_CONTEXT_OVERFLOW);
  CHECK(lean_error_number(error, "needed", Z, &needed) && lean_error_number(error, "available", 9, &available));
  CHECK(needed > 16 && available == 16);
  CHECK(!lean_error_number(error, "wanted", Z, &unknown) && unknown == 5);
  CHECK(strcmp(lean_error_name(error), "context_overflow") == 0);
  lean_error_free(error);
  OK(lean_session_append(session, small, NULL, &e));

  lean_generate_options_init(&options, sizeof options);
  options.max_tokens = 1000;
  FAILS(LEAN_CONTEXT_OVERFLOW, lean_session_generate(session, type, &options, &stream, &e));
  OK(lean_session_generate(session, type, NULL, &stream, &e));
  OK(lean_stream_finish(stream, &output, &e));
  lean_output_free(output);
  lean_stream_free(stream);
  lean_type_free(type);
  lean_context_free(big);
  lean_context_free(small);
  lean_session_free(session);
}

static void test_budget(const lean_model *model) {
  lean_context *context = text_context("Text: ");
  lean_type *value = expr(VALUE_TYPE), *text = NULL;
  lean_output *output = NULL;
  lean_error *error = NULL;
  lean_generate_options options;
  int32_t finish = -1;
  uint64_t needed = 0;
  OK(lean_type_text(LEAN_NONE, &text, &e));
  lean_generate_options_init(&options, sizeof options);

  /* A budget that cannot hold the value is refused with the count that can, and that count does. */
  options.max_tokens = 1;
  CHECK(lean_generate(model, context, value, &options, &output, &error) == LEAN_BUDGET_TOO_SMALL);
  CHECK(lean_error_number(error, "needed", Z, &needed) && needed > 1);
  CHECK(output == NULL);
  lean_error_free(error);
  options.max_tokens = needed;
  OK(lean_generate(model, context, value, &options, &output, &e));
  OK(lean_output_finish(output, &finish, &e));
  CHECK(finish == LEAN_FINISH_COMPLETE);
  lean_output_free(output);
  output = NULL;
  options.max_tokens = 6;

  /* Text just ends. */
  OK(lean_generate(model, context, text, &options, &output, &e));
  OK(lean_output_finish(output, &finish, &e));
  CHECK(finish == LEAN_FINISH_LENGTH || finish == LEAN_FINISH_COMPLETE);
  lean_output_free(output);

  options.max_tokens = 0;
  REFUSED(lean_generate(model, context, text, &options, &output, &e));
  options.max_tokens = LEAN_NONE;
  options.timeout_ms = 0;
  FAILS(LEAN_TIMEOUT, lean_generate(model, context, text, &options, &output, &e));
  options.timeout_ms = LEAN_NONE;
  options.temperature = -1;
  REFUSED(lean_generate(model, context, text, &options, &output, &e));
  options.temperature = 0;
  options.flags = 1u << 31;
  REFUSED(lean_generate(model, context, text, &options, &output, &e));
  options.flags = 0;
  options.candidates = 65;
  REFUSED(lean_generate(model, context, text, &options, &output, &e));
  lean_type_free(value);
  lean_type_free(text);
  lean_context_free(context);
}

/* Stops at a string that the model is known to write, because it wrote it before. */
static void test_stop(const lean_model *model) {
  lean_context *context = text_context("Text: ");
  lean_type *text = NULL;
  lean_output *output = NULL;
  lean_generate_options options;
  const char *whole = NULL, *cut = NULL;
  size_t length = 0, cut_length = 0;
  int32_t finish = -1;
  char stop[4] = "";
  OK(lean_type_text(LEAN_NONE, &text, &e));
  lean_generate_options_init(&options, sizeof options);
  options.max_tokens = 24;
  OK(lean_generate(model, context, text, &options, &output, &e));
  OK(lean_output_text(output, &whole, &length, &e));
  /* Any byte of ASCII after the first few will do. */
  for (size_t i = 3; i < length && stop[0] == 0; i++)
    if (whole[i] > ' ' && whole[i] < 127) stop[0] = whole[i];
  CHECK(stop[0] != 0);
  const char *stops[] = {"never written: \x01\x02", stop};
  options.stop = stops;
  options.stop_count = 2;
  lean_output *stopped = NULL;
  OK(lean_generate(model, context, text, &options, &stopped, &e));
  OK(lean_output_finish(stopped, &finish, &e));
  OK(lean_output_text(stopped, &cut, &cut_length, &e));
  CHECK(finish == LEAN_FINISH_STOP && cut_length < length);
  CHECK(strstr(cut, stop) == NULL && strncmp(whole, cut, cut_length) == 0);
  lean_output_free(stopped);
  lean_output_free(output);
  lean_type_free(text);
  lean_context_free(context);
}

/* A program built when `lean_generate_options` ended with `seed`. */
static void test_older_program(const lean_model *model) {
  struct {
    uint32_t struct_size, flags;
    uint64_t max_tokens;
    float temperature, top_p, min_p, repetition_penalty;
    uint32_t repetition_window, top_k;
    uint64_t seed;
    uint8_t beyond[64];
  } old;
  memset(&old, 0xa5, sizeof old);
  size_t size = offsetof(lean_generate_options, stop);
  CHECK(size == (size_t)((uint8_t *)old.beyond - (uint8_t *)&old));
  lean_generate_options_init((lean_generate_options *)(void *)&old, size);
  CHECK(old.struct_size == size && old.max_tokens == LEAN_NONE && old.beyond[0] == 0xa5 && old.beyond[63] == 0xa5);
  lean_context *context = text_context("A value: ");
  lean_type *type = expr("\"'a' | 'b'\"");
  lean_output *output = NULL;
  OK(lean_generate(model, context, type, (lean_generate_options *)(void *)&old, &output, &e));
  lean_output_free(output);
  output = NULL;

  uint32_t sizes[] = {0, 3, (uint32_t)size - 1, (uint32_t)size + 2, 5000, UINT32_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    old.struct_size = sizes[i];
    REFUSED(lean_generate(model, context, type, (lean_generate_options *)(void *)&old, &output, &e));
  }
  CHECK(output == NULL);

  /* A newer program may not set what this library does not know. */
  struct {
    lean_session_options known;
    uint64_t added;
  } newer;
  lean_session *session = NULL;
  lean_session_options_init(&newer.known, sizeof newer);
  CHECK(newer.known.struct_size == sizeof newer && newer.added == 0);
  OK(lean_session_new(model, &newer.known, &session, &e));
  lean_session_free(session);
  newer.added = 1;
  REFUSED(lean_session_new(model, &newer.known, &session, &e));
  lean_type_free(type);
  lean_context_free(context);
}

struct log {
  int messages, warnings, destroyed;
};

static void on_log(void *user, int32_t level, const char *message, size_t length) {
  struct log *log = user;
  log->messages += strlen(message) == length;
  log->warnings += level == LEAN_LOG_WARNING;
}

static void on_destroy(void *user) { ((struct log *)user)->destroyed++; }

static void test_log(void) {
  struct log log = {0, 0, 0};
  lean_type *type = NULL;
  OK(lean_log_set(on_log, LEAN_LOG_WARNING, &log, on_destroy, &e));
  OK(lean_type_schema("{\"type\": \"boolean\", \"x-unknown\": 1}", Z, &type, &e));
  lean_type_free(type);
  CHECK(log.warnings > 0 && log.messages == log.warnings && log.destroyed == 0);
  OK(lean_log_set(NULL, LEAN_LOG_INFO, NULL, NULL, &e));
  CHECK(log.destroyed == 1);
  REFUSED(lean_log_set(on_log, 77, &log, on_destroy, &e));
  CHECK(log.destroyed == 1);
}

void test_limits(const char *path) {
  lean_model *model = load(path);
  test_overflow(model);
  test_budget(model);
  test_stop(model);
  test_older_program(model);
  test_log();
  lean_model_free(model);
}
