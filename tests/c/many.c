/* Several values out of one context, kept prefixes, cutting a session. */
#include "check.h"
#include <pthread.h>

#define BRANCHES 8
#define STEPS 24

static lean_stats stats_of(const lean_model *model) {
  lean_stats stats;
  lean_stats_init(&stats, sizeof stats);
  OK(lean_model_stats(model, &stats, &e));
  return stats;
}

static lean_context *story(void) {
  return text_context("Once upon a time a small machine learned to speak. It said little, and what it said was true.");
}

struct puller {
  lean_stream *stream;
  char text[2048];
};

static void *pull(void *user) {
  struct puller *p = user;
  lean_event event;
  lean_event_init(&event, sizeof event);
  while (lean_stream_next(p->stream, LEAN_WAIT_FOREVER, &event, NULL) == LEAN_OK) {
    size_t used = strlen(p->text);
    if (used + event.text_length < sizeof p->text) memcpy(p->text + used, event.text, event.text_length + 1);
  }
  return NULL;
}

static void test_branches(const lean_model *model) {
  char alone[BRANCHES][2048], got[2048];
  lean_type *text = NULL;
  const lean_type *types[BRANCHES];
  const lean_context *contexts[BRANCHES] = {NULL};
  lean_generate_options options[BRANCHES];
  const lean_generate_options *each[BRANCHES];
  lean_stream *streams[BRANCHES] = {NULL}, *stream = NULL;
  lean_session *sessions[BRANCHES] = {NULL}, *session = open_session(model, LEAN_NONE), *fork = NULL;
  lean_context *context = story(), *more = text_context(" And then?");
  lean_checkpoint *checkpoint = NULL, *middle = NULL;
  uint64_t longest = 0, all = 0;
  bool same = true;

  OK(lean_model_set_prefix_cache(model, 0, &e));
  OK(lean_type_text(LEAN_NONE, &text, &e));
  OK(lean_session_append(session, context, NULL, &e));
  OK(lean_session_checkpoint(session, &checkpoint, &e));
  for (int i = 0; i < BRANCHES; i++) {
    lean_generate_options_init(&options[i], sizeof options[i]);
    options[i].max_tokens = STEPS;
    options[i].temperature = 0.7f;
    options[i].seed = (uint64_t)i;
    types[i] = text, each[i] = &options[i];
    lean_stats before = stats_of(model);
    OK(lean_session_fork(session, &fork, &e));
    OK(lean_session_generate(fork, text, &options[i], &stream, &e));
    alone[i][0] = 0;
    CHECK(drain(stream, alone[i], sizeof alone[i]) == LEAN_END);
    uint64_t steps = stats_of(model).tokens - before.tokens;
    longest = steps > longest ? steps : longest, all += steps;
    lean_stream_free(stream);
    lean_session_free(fork);
  }

  /* One pass over the weights serves all branches. */
  lean_stats before = stats_of(model);
  size_t tokens = token_count(session);
  OK(lean_session_generate_many(session, BRANCHES, NULL, types, each, streams, sessions, &e));
  for (int i = 0; i < BRANCHES; i++) {
    lean_output *output = NULL;
    got[0] = 0;
    CHECK(drain(streams[i], got, sizeof got) == LEAN_END);
    same = same && strcmp(got, alone[i]) == 0;
    FAILS(LEAN_BUSY, lean_session_truncate(sessions[i], 1, &e));
    OK(lean_stream_finish(streams[i], &output, &e));
    same = same && token_count(sessions[i]) > tokens;
    lean_output_free(output);
    lean_stream_free(streams[i]);
    lean_session_free(sessions[i]);
  }
  lean_stats after = stats_of(model);
  CHECK(same);
  CHECK(after.tokens - before.tokens == all && after.passes - before.passes == longest && longest < all / 4);
  CHECK(token_count(session) == tokens);

  /* From a checkpoint, each branch in a thread of its own; one is cancelled, one goes elsewhere. */
  struct puller pullers[BRANCHES];
  pthread_t threads[BRANCHES];
  OK(lean_generate_many(model, checkpoint, BRANCHES, NULL, types, each, streams, NULL, &e));
  OK(lean_stream_checkpoint(streams[2], &middle, &e));
  OK(lean_stream_cancel(streams[1], &e));
  for (int i = 0; i < BRANCHES; i++) {
    pullers[i].stream = streams[i], pullers[i].text[0] = 0;
    pthread_create(&threads[i], NULL, pull, &pullers[i]);
  }
  for (int i = 0; i < BRANCHES; i++) {
    pthread_join(threads[i], NULL);
    same = same && (i == 1 || strcmp(pullers[i].text, alone[i]) == 0);
  }
  CHECK(same);
  FAILS(LEAN_CANCELLED, lean_stream_finish(streams[1], &(lean_output *){NULL}, &e));
  for (int i = 0; i < BRANCHES; i++) lean_stream_free(streams[i]);
  OK(lean_session_restore(model, middle, LEAN_RESTORE_EXACT, NULL, &fork, &e));
  OK(lean_session_resume(fork, NULL, &stream, &e));
  got[0] = 0;
  CHECK(drain(stream, got, sizeof got) == LEAN_END && strcmp(got, alone[2]) == 0);
  lean_stream_free(stream);
  lean_session_free(fork);
  lean_checkpoint_free(middle);

  /* Blocks of their own; nothing is started where one of them cannot be. */
  contexts[3] = more;
  OK(lean_generate_many(model, NULL, BRANCHES, (const lean_context *[BRANCHES]){context, context, context, more}, types, NULL, streams, NULL, &e));
  for (int i = 0; i < BRANCHES; i++) lean_stream_free(streams[i]);
  options[5].max_tokens = 1000000;
  before = stats_of(model);
  FAILS(LEAN_CONTEXT_OVERFLOW, lean_session_generate_many(session, BRANCHES, contexts, types, each, streams, NULL, &e));
  REFUSED(lean_generate_many(model, NULL, BRANCHES, NULL, types, NULL, NULL, NULL, &e));
  REFUSED(lean_generate_many(model, NULL, BRANCHES, NULL, NULL, NULL, streams, NULL, &e));
  OK(lean_generate_many(model, NULL, 0, NULL, NULL, NULL, streams, NULL, &e));
  CHECK(stats_of(model).tokens == before.tokens);

  lean_checkpoint_free(checkpoint);
  lean_context_free(context);
  lean_context_free(more);
  lean_session_free(session);
  lean_type_free(text);
}

static void test_prefixes(const lean_model *model) {
  lean_session *first = open_session(model, LEAN_NONE), *second = open_session(model, LEAN_NONE);
  lean_context *context = story();
  OK(lean_model_set_prefix_cache(model, 64 << 20, &e));
  OK(lean_session_append(first, context, NULL, &e));
  lean_stats before = stats_of(model);
  CHECK(before.prefix_entries == 1 && before.prefix_bytes > 0 && before.prefix_bytes <= before.state_bytes);
  OK(lean_session_append(second, context, NULL, &e));
  lean_stats after = stats_of(model);
  CHECK(after.tokens == before.tokens && after.prefix_hits == before.prefix_hits + 1);
  CHECK(after.prefix_tokens_reused - before.prefix_tokens_reused == token_count(first) - 1);
  OK(lean_model_set_prefix_cache(model, 0, &e));
  CHECK(stats_of(model).prefix_entries == 0);
  lean_stats short_one;
  lean_stats_init(&short_one, 24);
  OK(lean_model_stats(model, &short_one, &e));
  CHECK(short_one.struct_size == 24 && short_one.passes > 0);

  /* Cutting. */
  size_t count = token_count(first), ran = 0;
  OK(lean_session_drop_range(first, 4, 9, NULL, &ran, &e));
  CHECK(token_count(first) == count - 5 && ran == count - 5 - 4 - 1);
  REFUSED(lean_session_drop_range(first, 4, count, NULL, NULL, &e));
  REFUSED(lean_session_drop_range(first, 9, 4, NULL, NULL, &e));
  CHECK(token_count(first) == count - 5);
  lean_context_free(context);
  lean_session_free(first);
  lean_session_free(second);
}

void test_many(const char *path) {
  lean_model *model = load(path);
  test_branches(model);
  test_prefixes(model);
  lean_model_free(model);
}
