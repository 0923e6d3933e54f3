/* NULL, garbage and the wrong handle in every place of every function. */
#include "check.h"

#define BAD "\xff\xfe"
#define HUGE_LENGTH (SIZE_MAX / 2 + 7)

static lean_model *model, *no_model;
static lean_session *session, *no_session;
static lean_context *context;
static lean_type *type, *no_type;
static lean_checkpoint *checkpoint, *no_checkpoint;
static lean_cancel *cancel;
static lean_stream *no_stream;
static lean_output *no_output;
static lean_bytes *no_bytes;
static const char *no_text;
static const uint32_t *no_ids;
static size_t count = 77;

static void nothing_to_free(void) {
  lean_error_free(NULL);
  lean_adapter_free(NULL);
  lean_bytes_free(NULL);
  lean_cancel_free(NULL);
  lean_checkpoint_free(NULL);
  lean_context_free(NULL);
  lean_model_free(NULL);
  lean_output_free(NULL);
  lean_session_free(NULL);
  lean_stream_free(NULL);
  lean_type_free(NULL);
  lean_cancel_trigger(NULL);
  lean_load_options_init(NULL, 8);
  lean_session_options_init(NULL, 8);
  lean_prefill_options_init(NULL, 8);
  lean_generate_options_init(NULL, 8);
  lean_resume_options_init(NULL, 8);
  lean_event_init(NULL, 8);
  lean_usage_init(NULL, 8);
  CHECK(!lean_cancel_is_triggered(NULL));
  CHECK(lean_error_code(NULL) == LEAN_OK && strcmp(lean_error_name(NULL), "ok") == 0);
  CHECK(lean_error_message(NULL, NULL) == NULL && lean_error_json(NULL, NULL) == NULL);
  CHECK(lean_error_string(NULL, NULL, 3, NULL) == NULL && !lean_error_number(NULL, BAD, 2, NULL));
  CHECK(strcmp(lean_status_name(-5), "unknown") == 0 && strcmp(lean_status_name(LEAN_IO), "io") == 0);
  CHECK(lean_abi_version() == LEAN_ABI_VERSION && strchr(lean_version(), '.') != NULL);
}

static void models(const char *path) {
  REFUSED(lean_model_load(path, Z, NULL, NULL, &e));
  REFUSED(lean_model_load(NULL, 5, NULL, &no_model, &e));
  REFUSED(lean_model_load(NULL, Z, NULL, &no_model, &e));
  REFUSED(lean_model_load(BAD, Z, NULL, &no_model, &e));
  REFUSED(lean_model_load(path, HUGE_LENGTH, NULL, &no_model, &e));
  FAILS(LEAN_MODEL_IO, lean_model_load("no/such/model.gguf", Z, NULL, &no_model, &e));
  REFUSED(lean_model_load("", 0, NULL, &no_model, &e));
  REFUSED(lean_model_load("a\0b", 3, NULL, &no_model, &e));
  FAILS(LEAN_BAD_MODEL, lean_model_load(__FILE__, Z, NULL, &no_model, &e));
  REFUSED(lean_model_load_bytes(NULL, 5, NULL, &no_model, &e));
  REFUSED(lean_model_load_bytes((const uint8_t *)BAD, HUGE_LENGTH, NULL, &no_model, &e));
  REFUSED(lean_model_load_bytes((const uint8_t *)BAD, 2, NULL, NULL, &e));
  FAILS(LEAN_BAD_MODEL, lean_model_load_bytes(NULL, 0, NULL, &no_model, &e));
  FAILS(LEAN_BAD_MODEL, lean_model_load_bytes((const uint8_t *)"GGUF\3\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f", 16, NULL, &no_model, &e));
  REFUSED(lean_model_plan(path, Z, NULL, &e));
  REFUSED(lean_model_plan(NULL, Z, &no_bytes, &e));
  FAILS(LEAN_MODEL_IO, lean_model_plan("no/such/model.gguf", Z, &no_bytes, &e));

  lean_load_options options;
  memset(&options, 0xff, sizeof options);
  REFUSED(lean_model_load(path, Z, &options, &no_model, &e));
  lean_load_options_init(&options, sizeof options);
  options.backend = 9;
  REFUSED(lean_model_load(path, Z, &options, &no_model, &e));
  options.backend = LEAN_BACKEND_CPU;
  options.flags = 1u << 20;
  REFUSED(lean_model_load(path, Z, &options, &no_model, &e));
  options.flags = 0;
  options.adapter_length = 9;
  REFUSED(lean_model_load(path, Z, &options, &no_model, &e));
  options.adapter_length = 0;
  options.cancel = (lean_cancel *)(void *)model;
  REFUSED(lean_model_load(path, Z, &options, &no_model, &e));

  REFUSED(lean_model_info(NULL, &no_text, NULL, &e));
  REFUSED(lean_model_info(model, NULL, NULL, &e));
  uint64_t bytes = 77;
  REFUSED(lean_model_memory_bytes(NULL, 1, &bytes, &e));
  REFUSED(lean_model_memory_bytes(model, 1, NULL, &e));
  CHECK(bytes == 77);
  REFUSED(lean_model_tokenize(NULL, context, NULL, 0, &count, &e));
  REFUSED(lean_model_tokenize(model, NULL, NULL, 0, &count, &e));
  REFUSED(lean_model_tokenize(model, context, NULL, 3, &count, &e));
  REFUSED(lean_model_tokenize(model, context, NULL, 0, NULL, &e));
  REFUSED(lean_model_detokenize(NULL, NULL, 0, false, &no_bytes, &e));
  REFUSED(lean_model_detokenize(model, NULL, 3, false, &no_bytes, &e));
  REFUSED(lean_model_detokenize(model, NULL, 0, false, NULL, &e));
  REFUSED(lean_model_render_chat(NULL, "[]", Z, &no_bytes, &e));
  REFUSED(lean_model_render_chat(model, "[", Z, &no_bytes, &e));
  REFUSED(lean_model_render_chat(model, NULL, Z, &no_bytes, &e));
  REFUSED(lean_model_render_chat(model, "[]", Z, NULL, &e));
  REFUSED(lean_generate(NULL, context, type, NULL, &no_output, &e));
  REFUSED(lean_generate(model, context, NULL, NULL, &no_output, &e));
  REFUSED(lean_generate(model, context, type, NULL, NULL, &e));
}

static void types(void) {
  const char *null[] = {NULL};
  REFUSED(lean_type_expr(NULL, Z, &no_type, &e));
  REFUSED(lean_type_expr(NULL, 4, &no_type, &e));
  REFUSED(lean_type_expr("\"string\"", Z, NULL, &e));
  REFUSED(lean_type_expr("\"" BAD "\"", Z, &no_type, &e));
  FAILS(LEAN_TYPE, lean_type_expr(NULL, 0, &no_type, &e));
  REFUSED(lean_type_schema(NULL, Z, &no_type, &e));
  REFUSED(lean_type_schema("{}", Z, NULL, &e));
  FAILS(LEAN_TYPE, lean_type_schema("", 0, &no_type, &e));
  REFUSED(lean_type_text(1, NULL, &e));
  REFUSED(lean_type_regex(NULL, Z, &no_type, &e));
  REFUSED(lean_type_regex("a", Z, NULL, &e));
  REFUSED(lean_type_choice(NULL, NULL, 2, &no_type, &e));
  REFUSED(lean_type_choice(null, NULL, 1, &no_type, &e));
  REFUSED(lean_type_choice(null, NULL, HUGE_LENGTH, &no_type, &e));
  REFUSED(lean_type_choice(null, NULL, 1, NULL, &e));
  REFUSED(lean_type_json(NULL, Z, &no_type, &e));
  REFUSED(lean_type_json("{}", Z, NULL, &e));
  REFUSED(lean_type_get_schema(NULL, &no_text, NULL, &e));
  REFUSED(lean_type_get_schema(type, NULL, NULL, &e));
  REFUSED(lean_type_get_warnings(NULL, &no_text, NULL, &e));
  REFUSED(lean_type_get_warnings(type, NULL, NULL, &e));

  /* Nested far deeper than any stack. */
  size_t depth = 200000;
  char *deep = malloc(depth);
  memset(deep, '[', depth);
  FAILS(LEAN_TYPE, lean_type_expr(deep, depth, &no_type, &e));
  FAILS(LEAN_TYPE, lean_type_schema(deep, depth, &no_type, &e));
  REFUSED(lean_context_add_json(context, deep, depth, &e));
  free(deep);
}

static void contexts(void) {
  REFUSED(lean_context_new(NULL, &e));
  REFUSED(lean_context_add_text(NULL, "a", Z, &e));
  REFUSED(lean_context_add_text(context, NULL, 1, &e));
  REFUSED(lean_context_add_text(context, BAD, Z, &e));
  REFUSED(lean_context_add_text(context, "a", HUGE_LENGTH, &e));
  REFUSED(lean_context_add_raw(NULL, "a", Z, &e));
  REFUSED(lean_context_add_raw(context, NULL, Z, &e));
  REFUSED(lean_context_add_tokens(NULL, NULL, 0, &e));
  REFUSED(lean_context_add_tokens(context, NULL, 4, &e));
  REFUSED(lean_context_add_tokens(context, (const uint32_t *)(const void *)("abcdefghi" + 1), HUGE_LENGTH, &e));
  REFUSED(lean_context_add_json(NULL, "1", Z, &e));
  REFUSED(lean_context_add_json(context, "{", Z, &e));
  REFUSED(lean_context_add_chat(NULL, "[]", Z, &e));
  REFUSED(lean_context_add_chat(context, "7", Z, &e));
  REFUSED(lean_context_add_chat(context, "{\"messages\": [], \"poem\": 1}", Z, &e));
  REFUSED(lean_context_add_message(NULL, "user", Z, "a", Z, &e));
  REFUSED(lean_context_add_message(context, NULL, Z, "a", Z, &e));
  REFUSED(lean_context_add_message(context, "user", Z, BAD, Z, &e));
  REFUSED(lean_context_add_blocks(NULL, "[]", Z, &e));
  REFUSED(lean_context_add_blocks(context, "{}", Z, &e));
  REFUSED(lean_context_set_checkpoint(NULL, checkpoint, &e));
  REFUSED(lean_context_clear(NULL, &e));
  REFUSED(lean_cancel_new(NULL, &e));
}

static void sessions(void) {
  REFUSED(lean_session_new(NULL, NULL, &no_session, &e));
  REFUSED(lean_session_new(model, NULL, NULL, &e));
  REFUSED(lean_session_restore(NULL, checkpoint, 0, NULL, &no_session, &e));
  REFUSED(lean_session_restore(model, NULL, 0, NULL, &no_session, &e));
  REFUSED(lean_session_restore(model, checkpoint, 0, NULL, NULL, &e));
  REFUSED(lean_session_append(NULL, context, NULL, &e));
  REFUSED(lean_session_append(session, NULL, NULL, &e));
  REFUSED(lean_session_set_context(NULL, context, NULL, NULL, &e));
  REFUSED(lean_session_set_context(session, NULL, NULL, NULL, &e));
  REFUSED(lean_session_truncate(NULL, 0, &e));
  REFUSED(lean_session_fork(NULL, &no_session, &e));
  REFUSED(lean_session_fork(session, NULL, &e));
  REFUSED(lean_session_checkpoint(NULL, &no_checkpoint, &e));
  REFUSED(lean_session_checkpoint(session, NULL, &e));
  REFUSED(lean_session_tokens(NULL, NULL, 0, &count, &e));
  REFUSED(lean_session_tokens(session, NULL, 0, NULL, &e));
  REFUSED(lean_session_tokens(session, NULL, 5, &count, &e));
  REFUSED(lean_session_capacity(NULL, &count, &e));
  REFUSED(lean_session_capacity(session, NULL, &e));
  REFUSED(lean_session_restored(NULL, &(int32_t){0}, &e));
  REFUSED(lean_session_restored(session, NULL, &e));
  REFUSED(lean_session_can_resume(NULL, &(bool){0}, &e));
  REFUSED(lean_session_can_resume(session, NULL, &e));
  REFUSED(lean_session_forward(NULL, NULL, 0, NULL, 0, NULL, &e));
  REFUSED(lean_session_forward(session, NULL, 3, NULL, 0, NULL, &e));
  REFUSED(lean_session_generate(NULL, type, NULL, &no_stream, &e));
  REFUSED(lean_session_generate(session, NULL, NULL, &no_stream, &e));
  REFUSED(lean_session_generate(session, type, NULL, NULL, &e));
  REFUSED(lean_session_resume(NULL, NULL, &no_stream, &e));
  REFUSED(lean_session_resume(session, NULL, NULL, &e));
  lean_session_options options;
  lean_session_options_init(&options, sizeof options);
  options.context = 0;
  REFUSED(lean_session_new(model, &options, &no_session, &e));
  options.context = UINT64_MAX - 1;
  REFUSED(lean_session_new(model, &options, &no_session, &e));
}

static void streams(void) {
  lean_event event;
  lean_stream *stream = NULL;
  lean_event_init(&event, sizeof event);
  REFUSED(lean_stream_next(NULL, 0, &event, &e));
  REFUSED(lean_stream_partial(NULL, &no_text, NULL, &e));
  REFUSED(lean_stream_checkpoint(NULL, &no_checkpoint, &e));
  REFUSED(lean_stream_cancel(NULL, &e));
  REFUSED(lean_stream_finish(NULL, &no_output, &e));
  OK(lean_session_generate(session, type, NULL, &stream, &e));
  REFUSED(lean_stream_next(stream, 0, NULL, &e));
  REFUSED(lean_stream_partial(stream, NULL, NULL, &e));
  REFUSED(lean_stream_checkpoint(stream, NULL, &e));
  REFUSED(lean_stream_finish(stream, NULL, &e));
  event.struct_size = 3;
  REFUSED(lean_stream_next(stream, 0, &event, &e));
  lean_stream_free(stream);
}

static void outputs(void) {
  int32_t kind = 0;
  int64_t integer = 0;
  double number = 0;
  bool boolean = false;
  lean_usage usage;
  lean_output *output = NULL;
  lean_usage_init(&usage, sizeof usage);
  OK(lean_generate(model, NULL, type, NULL, &output, &e));
  REFUSED(lean_output_text(NULL, &no_text, NULL, &e));
  REFUSED(lean_output_text(output, NULL, NULL, &e));
  REFUSED(lean_output_json(NULL, &no_text, NULL, &e));
  REFUSED(lean_output_json(output, NULL, NULL, &e));
  REFUSED(lean_output_confidence(NULL, &no_text, NULL, &e));
  REFUSED(lean_output_confidence(output, NULL, NULL, &e));
  REFUSED(lean_output_finish(NULL, &kind, &e));
  REFUSED(lean_output_finish(output, NULL, &e));
  REFUSED(lean_output_tokens(NULL, &no_ids, &count, &e));
  REFUSED(lean_output_tokens(output, &no_ids, NULL, &e));
  REFUSED(lean_output_usage(NULL, &usage, &e));
  REFUSED(lean_output_usage(output, NULL, &e));
  REFUSED(lean_output_kind(NULL, "", 0, &kind, &e));
  REFUSED(lean_output_kind(output, BAD, Z, &kind, &e));
  REFUSED(lean_output_kind(output, "", 0, NULL, &e));
  REFUSED(lean_output_string(NULL, "", 0, &no_text, NULL, &e));
  REFUSED(lean_output_string(output, NULL, 9, &no_text, NULL, &e));
  REFUSED(lean_output_number(NULL, "", 0, &number, &e));
  REFUSED(lean_output_number(output, "", 0, NULL, &e));
  REFUSED(lean_output_integer(NULL, "", 0, &integer, &e));
  REFUSED(lean_output_integer(output, "", 0, NULL, &e));
  REFUSED(lean_output_boolean(NULL, "", 0, &boolean, &e));
  REFUSED(lean_output_boolean(output, "", 0, NULL, &e));
  REFUSED(lean_output_count(NULL, "", 0, &count, &e));
  REFUSED(lean_output_count(output, "", 0, NULL, &e));
  lean_output_free(output);
}

static void checkpoints(void) {
  REFUSED(lean_checkpoint_to_bytes(NULL, &no_bytes, &e));
  REFUSED(lean_checkpoint_to_bytes(checkpoint, NULL, &e));
  REFUSED(lean_checkpoint_from_bytes(NULL, 9, &no_checkpoint, &e));
  REFUSED(lean_checkpoint_from_bytes((const uint8_t *)BAD, 2, NULL, &e));
  FAILS(LEAN_BAD_CHECKPOINT, lean_checkpoint_from_bytes(NULL, 0, &no_checkpoint, &e));
  FAILS(LEAN_BAD_CHECKPOINT, lean_checkpoint_from_bytes((const uint8_t *)BAD, 2, &no_checkpoint, &e));
  REFUSED(lean_checkpoint_save(NULL, "x", Z, NULL, &e));
  REFUSED(lean_checkpoint_save(checkpoint, NULL, Z, NULL, &e));
  REFUSED(lean_checkpoint_save(checkpoint, "", 0, NULL, &e));
  REFUSED(lean_checkpoint_load(NULL, Z, &no_checkpoint, &e));
  REFUSED(lean_checkpoint_load(__FILE__, Z, NULL, &e));
  FAILS(LEAN_BAD_CHECKPOINT, lean_checkpoint_load(__FILE__, Z, &no_checkpoint, &e));
  REFUSED(lean_checkpoint_info(NULL, &no_bytes, &e));
  REFUSED(lean_checkpoint_info(checkpoint, NULL, &e));
  REFUSED(lean_checkpoint_tokens(NULL, &no_ids, &count, &e));
  REFUSED(lean_checkpoint_tokens(checkpoint, NULL, &count, &e));
  REFUSED(lean_bytes_data(NULL, &(const uint8_t *){NULL}, &count, &e));
}

/* A live handle of another type. */
static void wrong_handles(void) {
  REFUSED(lean_model_info((lean_model *)(void *)session, &no_text, NULL, &e));
  REFUSED(lean_session_tokens((lean_session *)(void *)model, NULL, 0, &count, &e));
  REFUSED(lean_session_append(session, (lean_context *)(void *)type, NULL, &e));
  REFUSED(lean_session_generate(session, (lean_type *)(void *)context, NULL, &no_stream, &e));
  REFUSED(lean_stream_finish((lean_stream *)(void *)session, &no_output, &e));
  REFUSED(lean_output_text((lean_output *)(void *)checkpoint, &no_text, NULL, &e));
  REFUSED(lean_checkpoint_to_bytes((lean_checkpoint *)(void *)cancel, &no_bytes, &e));
  REFUSED(lean_bytes_data((lean_bytes *)(void *)model, &(const uint8_t *){NULL}, &count, &e));
  REFUSED(lean_model_info((const lean_model *)(const void *)("abcdefgh" + 1), &no_text, NULL, &e));
  CHECK(lean_error_message((lean_error *)(void *)model, NULL) == NULL);
  lean_cancel_trigger((lean_cancel *)(void *)model);
  lean_model_free((lean_model *)(void *)session);
  lean_session_free((lean_session *)(void *)model);
  OK(lean_model_info(model, &no_text, NULL, &e));
  no_text = NULL;
}

void test_garbage(const char *path) {
  nothing_to_free();
  model = load(path);
  session = open_session(model, 256);
  context = text_context("hello");
  type = expr("\"'a' | 'b'\"");
  OK(lean_session_checkpoint(session, &checkpoint, &e));
  OK(lean_cancel_new(&cancel, &e));
  models(path);
  types();
  contexts();
  sessions();
  streams();
  outputs();
  checkpoints();
  wrong_handles();
  CHECK(no_model == NULL && no_session == NULL && no_type == NULL && no_stream == NULL && no_output == NULL);
  CHECK(no_checkpoint == NULL && no_bytes == NULL && no_text == NULL && no_ids == NULL && count == 77);
  CHECK(token_count(session) == 0);
  lean_cancel_free(cancel);
  lean_checkpoint_free(checkpoint);
  lean_type_free(type);
  lean_context_free(context);
  lean_session_free(session);
  lean_model_free(model);
}
