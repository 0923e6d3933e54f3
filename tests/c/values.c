/* Loading, typed values, streams, contexts. */
#include "check.h"

static void test_model(const char *path) {
  lean_bytes *plan = NULL;
  const uint8_t *data = NULL;
  const char *info = NULL;
  size_t length = 0;
  OK(lean_model_plan(path, Z, &plan, &e));
  OK(lean_bytes_data(plan, &data, &length, &e));
  CHECK(length == strlen((const char *)data) && strstr((const char *)data, "\"architecture\":\"llama\"") != NULL);
  lean_bytes_free(plan);

  lean_model *model = load(path);
  OK(lean_model_info(model, &info, &length, &e));
  CHECK(length == strlen(info) && strstr(info, "\"backend\":\"cpu\"") != NULL);

  /* State is allocated by pages of 32 tokens. */
  uint64_t one = 0, page = 0, more = 0;
  OK(lean_model_memory_bytes(model, 1, &one, &e));
  OK(lean_model_memory_bytes(model, 32, &page, &e));
  OK(lean_model_memory_bytes(model, 33, &more, &e));
  CHECK(one == page && page < more && strstr(info, "\"max_memory_bytes\":") != NULL);

  /* Ids and text are each other's inverse. */
  lean_context *context = text_context("hello there");
  uint32_t ids[64];
  size_t count = 0;
  OK(lean_model_tokenize(model, context, ids, 64, &count, &e));
  CHECK(count > 0 && count < 64);
  lean_bytes *text = NULL;
  OK(lean_model_detokenize(model, ids, count, false, &text, &e));
  OK(lean_bytes_data(text, &data, &length, &e));
  CHECK(strcmp((const char *)data, "hello there") == 0);
  lean_bytes_free(text);
  OK(lean_model_render_chat(model, "[{\"role\": \"user\", \"content\": \"hi\"}]", Z, &text, &e));
  OK(lean_bytes_data(text, &data, &length, &e));
  CHECK(strstr((const char *)data, "hi") != NULL);
  lean_bytes_free(text);
  lean_context_free(context);
  lean_model_free(model);
}

struct progress {
  uint64_t calls, last, stop_after;
};

static bool on_progress(void *user, uint64_t done, uint64_t total) {
  struct progress *p = user;
  p->calls++;
  p->last = done;
  return done <= total && p->calls != p->stop_after;
}

static void test_load_options(const char *path) {
  struct progress seen = {0, 0, 0}, stop = {0, 0, 1};
  lean_model *model = NULL;
  lean_load_options options;
  lean_load_options_init(&options, sizeof options);
  options.backend = LEAN_BACKEND_CPU;
  options.flags = LEAN_LOAD_MMAP | LEAN_LOAD_PORTABLE;
  options.progress = on_progress;
  options.progress_user = &seen;
  OK(lean_model_load(path, Z, &options, &model, &e));
  CHECK(seen.calls > 1 && seen.last > 0);
  lean_model_free(model);
  model = NULL;

  options.progress_user = &stop;
  FAILS(LEAN_CANCELLED, lean_model_load(path, Z, &options, &model, &e));
  CHECK(model == NULL && stop.calls == 1);

  lean_cancel *cancel = NULL;
  OK(lean_cancel_new(&cancel, &e));
  lean_cancel_trigger(cancel);
  CHECK(lean_cancel_is_triggered(cancel));
  options.progress = NULL;
  options.cancel = cancel;
  FAILS(LEAN_CANCELLED, lean_model_load(path, Z, &options, &model, &e));
  lean_cancel_free(cancel);

  /* From memory; the bytes may go as soon as the model is there. */
  FILE *file = fopen(path, "rb");
  fseek(file, 0, SEEK_END);
  size_t size = (size_t)ftell(file);
  rewind(file);
  uint8_t *bytes = malloc(size);
  CHECK(fread(bytes, 1, size, file) == size);
  fclose(file);
  OK(lean_model_load_bytes(bytes, size, NULL, &model, &e));
  FAILS(LEAN_BAD_MODEL, lean_model_load_bytes(bytes, size / 2, NULL, &(lean_model *){NULL}, &e));
  memset(bytes, 0xee, size);
  free(bytes);
  lean_context *context = text_context("hello");
  lean_type *type = expr("\"'yes' | 'no'\"");
  lean_output *output = NULL;
  const char *text = NULL;
  OK(lean_generate(model, context, type, NULL, &output, &e));
  OK(lean_output_text(output, &text, NULL, &e));
  CHECK(strcmp(text, "\"yes\"") == 0 || strcmp(text, "\"no\"") == 0);
  lean_output_free(output);
  lean_type_free(type);
  lean_context_free(context);
  lean_model_free(model);
}

static void test_types(void) {
  lean_type *type = NULL;
  const char *text = NULL;
  const char *choices[] = {"red", "green"};
  OK(lean_type_schema("{\"type\": \"integer\", \"x-unknown\": 1}", Z, &type, &e));
  OK(lean_type_get_warnings(type, &text, NULL, &e));
  CHECK(strstr(text, "x-unknown") != NULL);
  OK(lean_type_get_schema(type, &text, NULL, &e));
  CHECK(strstr(text, "\"integer\"") != NULL);
  lean_type_free(type);
  OK(lean_type_choice(choices, NULL, 2, &type, &e));
  lean_type_free(type);
  OK(lean_type_choice(choices, (size_t[]){1, 2}, 2, &type, &e));
  lean_type_free(type);
  OK(lean_type_regex("[a-c]{3}", Z, &type, &e));
  lean_type_free(type);
  OK(lean_type_text(40, &type, &e));
  lean_type_free(type);
  OK(lean_type_text(LEAN_NONE, &type, &e));
  lean_type_free(type);
  OK(lean_type_json("{\"choice\": [\"a\", \"b\"]}", Z, &type, &e));
  lean_type_free(type);

  FAILS(LEAN_TYPE, lean_type_expr("{\"a\": \"nonsense ~\"}", Z, &type, &e));
  FAILS(LEAN_TYPE, lean_type_expr("{\"a\": ", Z, &type, &e));
  FAILS(LEAN_TYPE, lean_type_schema("{\"type\": 7}", Z, &type, &e));
  FAILS(LEAN_TYPE, lean_type_regex("(", Z, &type, &e));
  FAILS(LEAN_TYPE, lean_type_choice(NULL, NULL, 0, &type, &e));
  FAILS(LEAN_TYPE, lean_type_json("{\"poem\": 1}", Z, &type, &e));

  /* A type error says where. */
  lean_error *error = NULL;
  lean_type_expr("{\"a\": \"nonsense ~\"}", Z, &type, &error);
  CHECK(lean_error_string(error, "at", Z, NULL) != NULL && lean_error_string(error, "reason", Z, NULL) != NULL);
  CHECK(lean_error_string(error, "path", Z, NULL) == NULL);
  CHECK(strstr(lean_error_json(error, NULL), "\"code\":110") != NULL);
  CHECK(strcmp(lean_error_name(error), "type") == 0);
  lean_error_free(error);
}

/* Every reader of a value, on a value that a schema fixes. */
static void test_output(const lean_model *model) {
  static const char schema[] =
      "{\"type\": \"object\", \"properties\": {\"s\": {\"const\": \"caf\\u00e9\"}, \"i\": {\"const\": 42}, \"x\": {\"const\": 2.5},"
      " \"b\": {\"const\": true}, \"n\": {\"type\": \"null\"}, \"a\": {\"type\": \"array\", \"items\": {\"enum\": [1]},"
      " \"minItems\": 2, \"maxItems\": 2}}, \"required\": [\"s\", \"i\", \"x\", \"b\", \"n\", \"a\"]}";
  static const char want[] = "{\"s\":\"caf\xc3\xa9\",\"i\":42,\"x\":2.5,\"b\":true,\"n\":null,\"a\":[1,1]}";
  lean_type *type = NULL;
  lean_output *output = NULL;
  lean_context *context = text_context("A value:");
  OK(lean_type_schema(schema, Z, &type, &e));
  OK(lean_generate(model, context, type, NULL, &output, &e));

  const char *text = NULL;
  const uint32_t *ids = NULL;
  size_t length = 0, count = 0;
  int32_t kind = -1;
  double number = 0;
  int64_t integer = 0;
  bool boolean = false;
  OK(lean_output_text(output, &text, &length, &e));
  CHECK(strcmp(text, want) == 0 && length == sizeof want - 1);
  OK(lean_output_json(output, &text, &length, &e));
  CHECK(strcmp(text, want) == 0);
  OK(lean_output_string(output, "/s", Z, &text, &length, &e));
  CHECK(length == 5 && strcmp(text, "caf\xc3\xa9") == 0);
  OK(lean_output_integer(output, "/i", Z, &integer, &e));
  CHECK(integer == 42);
  OK(lean_output_number(output, "/x", 2, &number, &e));
  CHECK(number == 2.5);
  OK(lean_output_boolean(output, "/b", Z, &boolean, &e));
  CHECK(boolean);
  OK(lean_output_kind(output, "/n", Z, &kind, &e));
  CHECK(kind == LEAN_KIND_NULL);
  OK(lean_output_kind(output, NULL, 0, &kind, &e));
  CHECK(kind == LEAN_KIND_OBJECT);
  OK(lean_output_count(output, "/a", Z, &count, &e));
  CHECK(count == 2);
  OK(lean_output_count(output, "", 0, &count, &e));
  CHECK(count == 6);
  OK(lean_output_number(output, "/a/1", Z, &number, &e));
  CHECK(number == 1);
  OK(lean_output_tokens(output, &ids, &count, &e));
  CHECK(count > 0 && ids != NULL);
  OK(lean_output_finish(output, &kind, &e));
  CHECK(kind == LEAN_FINISH_COMPLETE);

  integer = 7;
  REFUSED(lean_output_integer(output, "/x", Z, &integer, &e));
  REFUSED(lean_output_integer(output, "/s", Z, &integer, &e));
  REFUSED(lean_output_integer(output, "/nowhere", Z, &integer, &e));
  REFUSED(lean_output_integer(output, "/a/9", Z, &integer, &e));
  CHECK(integer == 7);
  REFUSED(lean_output_string(output, "/i", Z, &text, NULL, &e));
  REFUSED(lean_output_boolean(output, "/i", Z, &boolean, &e));
  REFUSED(lean_output_count(output, "/i", Z, &count, &e));

  lean_usage usage;
  lean_usage_init(&usage, sizeof usage);
  OK(lean_output_usage(output, &usage, &e));
  CHECK(usage.struct_size == sizeof usage && usage.prompt_tokens > 0 && usage.forced_tokens > 0);
  CHECK(usage.total_seconds > 0 && usage.saved_passes > 0 && usage.saved_passes <= usage.forced_tokens);
  /* A program built before the count of saved passes has a shorter struct, and nothing is written behind it. */
  size_t older = offsetof(lean_usage, saved_passes);
  usage.saved_passes = 77;
  lean_usage_init(&usage, older);
  OK(lean_output_usage(output, &usage, &e));
  CHECK(usage.struct_size == older && usage.forced_tokens > 0 && usage.saved_passes == 77);
  lean_output_free(output);
  lean_type_free(type);
  lean_context_free(context);
}

/* A streamed value: the pieces make the whole, and the session has it only after the end. */
static void test_stream(const lean_model *model) {
  lean_session *session = open_session(model, 512);
  lean_context *context = text_context("An issue: ");
  lean_type *type = expr(VALUE_TYPE);
  lean_stream *stream = NULL;
  lean_output *output = NULL;
  const char *text = NULL, *partial = NULL;
  char pieces[4096] = "";
  size_t length = 0, count = 0;
  const uint32_t *ids = NULL;
  OK(lean_session_append(session, context, NULL, &e));
  size_t before = token_count(session);
  OK(lean_session_generate(session, type, NULL, &stream, &e));
  FAILS(LEAN_BUSY, lean_session_append(session, context, NULL, &e));
  FAILS(LEAN_BUSY, lean_session_tokens(session, NULL, 0, &count, &e));
  FAILS(LEAN_BUSY, lean_session_generate(session, type, NULL, &(lean_stream *){NULL}, &e));
  lean_type_free(type); /* The stream has what it needs. */

  lean_event event;
  lean_event_init(&event, sizeof event);
  size_t tokens = 0;
  while (lean_stream_next(stream, LEAN_WAIT_FOREVER, &event, NULL) == LEAN_OK) {
    strncat(pieces, event.text, sizeof pieces - strlen(pieces) - 1);
    tokens += event.kind == LEAN_EVENT_TOKEN;
    if (tokens == 3 && partial == NULL) {
      OK(lean_stream_partial(stream, &partial, &length, &e));
      CHECK(strncmp(partial, pieces, strlen(pieces)) == 0 && length == strlen(partial));
    }
  }
  CHECK(lean_stream_next(stream, 0, &event, NULL) == LEAN_END);
  OK(lean_stream_finish(stream, &output, &e));
  REFUSED(lean_stream_finish(stream, &output, &e));
  REFUSED(lean_stream_next(stream, 0, &event, &e));
  lean_stream_free(stream);
  OK(lean_output_text(output, &text, &length, &e));
  CHECK(strcmp(pieces, text) == 0);
  OK(lean_output_string(output, "/kind", Z, &text, &length, &e));
  CHECK(strcmp(text, "bug") == 0 || strcmp(text, "feature") == 0);
  OK(lean_output_tokens(output, &ids, &count, &e));
  CHECK(tokens == count && token_count(session) == before + count);
  lean_output_free(output);
  lean_context_free(context);
  lean_session_free(session);
}

/* Only the events that were asked for; a timeout between them is no error. */
static void test_events(const lean_model *model) {
  lean_session *session = open_session(model, 512);
  lean_type *type = expr(VALUE_TYPE);
  lean_stream *stream = NULL;
  lean_generate_options options;
  lean_event event;
  lean_generate_options_init(&options, sizeof options);
  lean_event_init(&event, sizeof event);
  options.events = 0;
  OK(lean_session_generate(session, type, &options, &stream, &e));
  lean_status status;
  size_t pending = 0;
  while ((status = lean_stream_next(stream, 0, &event, NULL)) == LEAN_PENDING) pending++;
  CHECK(status == LEAN_END && pending > 3);
  lean_stream_free(stream);

  options.events = LEAN_EVENTS_TEXT;
  OK(lean_session_generate(session, type, &options, &stream, &e));
  bool all = true;
  while (lean_stream_next(stream, LEAN_WAIT_FOREVER, &event, NULL) == LEAN_OK) all = all && event.text_length > 0;
  CHECK(all);
  lean_stream_free(stream);
  CHECK(token_count(session) == 0); /* Freed, not finished. */

  /* What each chosen token was chosen from: itself among the others. */
  options.events = LEAN_EVENTS_CANDIDATES;
  options.candidates = 3;
  OK(lean_session_generate(session, type, &options, &stream, &e));
  size_t choices = 0;
  while (lean_stream_next(stream, LEAN_WAIT_FOREVER, &event, NULL) == LEAN_OK) {
    CHECK(event.kind == LEAN_EVENT_CANDIDATES && strncmp(event.text, "[{\"id\":", 7) == 0);
    CHECK(strstr(event.text, "\"allowed\":true") != NULL && strstr(event.text, "\"probability\":") != NULL);
    choices++;
  }
  CHECK(choices > 0);
  lean_stream_free(stream);
  options.candidates = 65;
  CHECK(lean_session_generate(session, type, &options, &stream, NULL) == LEAN_INVALID_ARGUMENT);
  options.candidates = 0;

  /* The value so far, always closed; its first bytes are those of the value. */
  options.events = LEAN_EVENTS_PARTIAL;
  options.flags = LEAN_GENERATE_PARTIALS;
  OK(lean_session_generate(session, type, &options, &stream, &e));
  size_t seen = 0, final_bytes = 0;
  while (lean_stream_next(stream, LEAN_WAIT_FOREVER, &event, NULL) == LEAN_OK) {
    CHECK(event.kind == LEAN_EVENT_PARTIAL && event.path != NULL && event.path_length == strlen(event.path));
    CHECK(event.text_length > 0 && event.text[event.text_length - 1] == '}' && event.done >= final_bytes);
    final_bytes = (size_t)event.done;
    seen++;
  }
  CHECK(seen > 2 && final_bytes == event.text_length && event.path_length == 0);
  lean_stream_free(stream);
  options.flags = 0;

  /* A program built when the event ended with `total`: what it does not know is not written. */
  lean_event old;
  memset(&old, 0x5a, sizeof old);
  lean_event_init(&old, offsetof(lean_event, text));
  OK(lean_session_generate(session, type, NULL, &stream, &e));
  OK(lean_stream_next(stream, LEAN_WAIT_FOREVER, &old, &e));
  CHECK(old.kind != 0 && old.token == 0x5a5a5a5a && old.struct_size == offsetof(lean_event, text));
  lean_stream_free(stream);
  lean_type_free(type);
  lean_session_free(session);
}

/* Everything that a context can hold; the same blocks one by one and as JSON. */
static void test_contexts(const lean_model *model) {
  lean_context *one = NULL, *two = NULL;
  uint32_t a[256], b[256];
  size_t n = 0, m = 1;
  OK(lean_context_new(&one, &e));
  OK(lean_context_new(&two, &e));
  OK(lean_context_add_message(one, "system", Z, "Be brief.", Z, &e));
  OK(lean_context_add_message(one, "user", Z, "Hello", Z, &e));
  OK(lean_context_add_text(one, " plain", 6, &e));
  OK(lean_context_add_raw(one, "<|im_end|>", Z, &e));
  OK(lean_context_add_tokens(one, (uint32_t[]){3, 4}, 2, &e));
  OK(lean_context_add_json(one, "{ \"k\": [1, 2] }", Z, &e));
  OK(lean_context_add_blocks(two,
                             "[{\"chat\": {\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"},"
                             " {\"role\": \"user\", \"content\": \"Hello\"}]}}, {\"text\": \" plain\"},"
                             " {\"raw\": \"<|im_end|>\"}, {\"tokens\": [3, 4]}, {\"json\": {\"k\": [1, 2]}}]",
                             Z, &e));
  OK(lean_model_tokenize(model, one, a, 256, &n, &e));
  OK(lean_model_tokenize(model, two, b, 256, &m, &e));
  CHECK(n == m && memcmp(a, b, n * sizeof *a) == 0);
  OK(lean_context_clear(two, &e));
  OK(lean_context_add_chat(two, "[{\"role\": \"user\", \"content\": \"Hello\"}]", Z, &e));
  OK(lean_model_tokenize(model, two, b, 256, &m, &e));
  CHECK(m > 0);
  REFUSED(lean_context_add_blocks(two, "[{\"text\": \"x\"}, {\"poem\": 1}]", Z, &e));
  OK(lean_model_tokenize(model, two, NULL, 0, &n, &e));
  CHECK(n == m); /* All or none. */
  lean_context_free(one);
  lean_context_free(two);
}

void test_values(const char *path) {
  test_model(path);
  test_load_options(path);
  test_types();
  lean_model *model = load(path);
  test_output(model);
  test_stream(model);
  test_events(model);
  test_contexts(model);
  lean_model_free(model);
}
