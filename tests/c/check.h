/* One line a check, counted by run.sh; and the few steps that every test repeats. */
#ifndef CHECK_H
#define CHECK_H

#include <lean.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define Z LEAN_CSTR

void check(bool ok, const char *what, const char *file, int line);
/* Prints what an unexpected error says; frees it. Returns whether there was none. */
bool none(lean_error *error);

#define CHECK(condition) check((condition), #condition, __FILE__, __LINE__)

/* The call, which names its error `&e`, succeeds. */
#define OK(call)                                                                                              \
  do {                                                                                                        \
    lean_error *e = NULL;                                                                                     \
    lean_status got = (call);                                                                                 \
    check(none(e) && got == LEAN_OK, #call, __FILE__, __LINE__);                                              \
  } while (0)

/* The call, which names its error `&e`, fails with a status and an error that says the same in words. */
#define FAILS(want, call) FAILS_AS(want, call, #want ": " #call)
#define REFUSED(call) FAILS_AS(LEAN_INVALID_ARGUMENT, call, "refused: " #call)
#define FAILS_AS(want, call, text)                                                                            \
  do {                                                                                                        \
    lean_error *e = NULL;                                                                                     \
    lean_status got = (call);                                                                                 \
    bool told = e != NULL && lean_error_code(e) == got && *lean_error_message(e, NULL) != 0;                  \
    check(got == (want) && told, text, __FILE__, __LINE__);                                                   \
    if (got != (want) && e != NULL) printf("     got: %s\n", lean_error_message(e, NULL));                    \
    lean_error_free(e);                                                                                       \
  } while (0)

lean_model *load(const char *path);
lean_session *open_session(const lean_model *model, uint64_t context);
lean_type *expr(const char *json);
/* A context of one plain text. */
lean_context *text_context(const char *text);
size_t token_count(lean_session *session);
/* Pulls all events that are left; appends their text to `out` (of `size`), returns the last status. */
lean_status drain(lean_stream *stream, char *out, size_t size);

/* A value of some length that a model without sense ends too. */
#define VALUE_TYPE                                                                                            \
  "{\"kind\": \"'bug' | 'feature'\", \"open\": \"boolean\", \"title\": \"string <= 24\", \"note\": \"string <= 24\"}"

void test_garbage(const char *model_path);
void test_values(const char *model_path);
void test_sessions(const char *model_path);
void test_limits(const char *model_path);
void test_many(const char *model_path);
void test_adapters(const char *model_path);
void test_kv(void);
void test_port(void);
void cut(const char *model_path, const char *file);
void resume(const char *model_path, const char *file);

#endif
