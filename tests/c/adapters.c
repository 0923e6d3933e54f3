/* LoRA adapters, on the model that the fixture is for; on another it is refused. */
#include "check.h"

#define ADAPTER "tests/fixtures/adapters/llama-all-r4"

static void logits_of(lean_session *session, float *logits, size_t capacity) {
  const uint32_t id = 40;
  size_t written = 0;
  OK(lean_session_forward(session, &id, 1, logits, capacity, &written, &e));
  CHECK(written > capacity);
  OK(lean_session_truncate(session, token_count(session) - 1, &e));
}

static bool same(const float *a, const float *b) { return memcmp(a, b, 64 * sizeof *a) == 0; }

static void test_sessions_with(const lean_model *model, const lean_model *other, const lean_adapter *adapter) {
  float plain[64], adapted[64], half[64], again[64];
  const lean_adapter *list[] = {adapter};
  const float one_half = 0.5f, bad = 1.0f / 0.0f;
  lean_context *context = text_context("Once upon a time there was a machine.");
  lean_session *session = open_session(model, LEAN_NONE), *fork = NULL, *restored = NULL;
  lean_checkpoint *checkpoint = NULL;
  OK(lean_session_append(session, context, NULL, &e));
  logits_of(session, plain, 64);
  OK(lean_session_set_adapters(session, list, NULL, 1, NULL, &e));
  logits_of(session, adapted, 64);
  CHECK(!same(plain, adapted));
  OK(lean_session_fork(session, &fork, &e));
  OK(lean_session_set_adapters(session, list, &one_half, 1, NULL, &e));
  logits_of(session, half, 64);
  CHECK(!same(half, adapted) && !same(half, plain));
  logits_of(fork, again, 64);
  CHECK(same(again, adapted));

  OK(lean_session_checkpoint(fork, &checkpoint, &e));
  OK(lean_session_restore(model, checkpoint, LEAN_RESTORE_EXACT, NULL, &restored, &e));
  logits_of(restored, again, 64);
  CHECK(same(again, adapted));
  lean_session_free(restored);
  restored = NULL;
  FAILS(LEAN_INCOMPATIBLE, lean_session_restore(other, checkpoint, LEAN_RESTORE_EXACT, NULL, &restored, &e));

  REFUSED(lean_session_set_adapters(session, list, &bad, 1, NULL, &e));
  REFUSED(lean_session_set_adapters(session, NULL, NULL, 1, NULL, &e));
  REFUSED(lean_session_set_adapters(session, &(const lean_adapter *){NULL}, NULL, 1, NULL, &e));
  OK(lean_session_set_adapters(session, NULL, NULL, 0, NULL, &e));
  logits_of(session, again, 64);
  CHECK(same(again, plain));
  lean_session_free(session);
  session = open_session(other, LEAN_NONE);
  REFUSED(lean_session_set_adapters(session, list, NULL, 1, NULL, &e));
  lean_session_free(session);
  lean_session_free(fork);
  lean_checkpoint_free(checkpoint);
  lean_context_free(context);
}

void test_adapters(const char *path) {
  lean_model *model = load(path), *other = load(path);
  lean_adapter *adapter = NULL;
  const char *info = NULL;
  size_t length = 0;
  if (strstr(path, "llama-hd64-tied") == NULL) {
    FAILS(LEAN_BAD_MODEL, lean_adapter_load(model, ADAPTER, Z, &adapter, &e));
  } else {
    OK(lean_adapter_load(model, ADAPTER, Z, &adapter, &e));
    OK(lean_adapter_info(adapter, &info, &length, &e));
    CHECK(length == strlen(info) && strstr(info, "\"name\":\"llama-all-r4\"") != NULL);
    test_sessions_with(model, other, adapter);
    lean_adapter_free(adapter);
    adapter = NULL;
    FAILS(LEAN_UNSUPPORTED_MODEL, lean_adapter_load(model, "tests/fixtures/adapters/qwen2-all-r4.gguf", Z, &adapter, &e));
  }
  FAILS(LEAN_IO, lean_adapter_load(model, "tests/fixtures/adapters/none", Z, &adapter, &e));
  REFUSED(lean_adapter_load(NULL, ADAPTER, Z, &adapter, &e));
  REFUSED(lean_adapter_load(model, NULL, Z, &adapter, &e));
  REFUSED(lean_adapter_info(NULL, &info, NULL, &e));
  CHECK(adapter == NULL);
  lean_model_free(other);
  lean_model_free(model);
}
