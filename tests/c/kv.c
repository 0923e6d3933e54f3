/* How keys and values are stored is part of what a checkpoint is. */
#include "check.h"

#define TINY "tests/fixtures/models/llama-hd64-tied.s1.q4_1.gguf"

static lean_model *load_kv(uint32_t kv) {
  lean_load_options options;
  lean_model *model = NULL;
  lean_load_options_init(&options, sizeof options);
  options.kv = kv;
  OK(lean_model_load(TINY, Z, &options, &model, &e));
  return model;
}

/* Whether `info` of a model or checkpoint names its class with this in it. */
static bool named(lean_bytes *json, const char *word) {
  const uint8_t *data = NULL;
  size_t length = 0;
  char text[4096];
  OK(lean_bytes_data(json, &data, &length, &e));
  if (length >= sizeof text) length = sizeof text - 1;
  memcpy(text, data, length);
  text[length] = 0;
  lean_bytes_free(json);
  return strstr(text, word) != NULL;
}

void test_kv(void) {
  static const struct { uint32_t kv; const char *name; } kinds[] = {
      {LEAN_KV_F32, "cpu-exact"}, {LEAN_KV_F24, "f24kv"}, {LEAN_KV_F16, "f16kv"}, {LEAN_KV_Q8_0, "q8_0kv"}};
  lean_context *context = text_context("Once upon a time ");
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    lean_model *model = load_kv(kinds[i].kv), *other = load_kv(kinds[(i + 1) % 4].kv);
    lean_session *session = open_session(model, LEAN_NONE), *again = NULL;
    lean_checkpoint *checkpoint = NULL;
    lean_bytes *json = NULL;
    OK(lean_session_append(session, context, NULL, &e));
    OK(lean_session_checkpoint(session, &checkpoint, &e));
    OK(lean_checkpoint_info(checkpoint, &json, &e));
    CHECK(named(json, kinds[i].name));
    OK(lean_session_restore(model, checkpoint, LEAN_RESTORE_EXACT, NULL, &again, &e));
    lean_session_free(again);
    FAILS(LEAN_INCOMPATIBLE, lean_session_restore(other, checkpoint, LEAN_RESTORE_EXACT, NULL, &again, &e));
    OK(lean_session_restore(other, checkpoint, LEAN_RESTORE_REPREFILL, NULL, &again, &e));
    CHECK(token_count(again) == token_count(session));
    lean_session_free(again);
    lean_checkpoint_free(checkpoint);
    lean_session_free(session);
    lean_model_free(model);
    lean_model_free(other);
  }
  lean_context_free(context);

  lean_load_options options;
  lean_model *model = NULL;
  lean_load_options_init(&options, sizeof options);
  options.kv = 9;
  REFUSED(lean_model_load(TINY, Z, &options, &model, &e));

  lean_load_options_init(&options, sizeof options);
  options.precision = 2;
  REFUSED(lean_model_load(TINY, Z, &options, &model, &e));
}
