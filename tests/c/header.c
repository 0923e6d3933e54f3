/* Compiled, not run: as C99, C11 and C++17, with all warnings as errors. What never changes is asserted. */
#include <lean.h>

#if defined(__cplusplus)
#define ASSERT(condition, name) static_assert(condition, #name)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define ASSERT(condition, name) _Static_assert(condition, #name)
#else
#define ASSERT(condition, name) typedef char name[(condition) ? 1 : -1]
#endif

/* The number of a constant, the place of a field on 64-bit machines, the size of a struct. */
#define IS(constant, number) ASSERT(constant == number, constant_##constant)
#define AT(type, field, offset) ASSERT(sizeof(void *) != 8 || offsetof(type, field) == offset, type##_##field)
#define SIZE(type, size) ASSERT(sizeof(void *) != 8 || sizeof(type) == size, type##_size)

IS(LEAN_ABI_VERSION, 1);
IS(LEAN_OK, 0);
IS(LEAN_PENDING, 1);
IS(LEAN_END, 2);
IS(LEAN_INVALID_ARGUMENT, 100);
IS(LEAN_TYPE, 110);
IS(LEAN_TEMPLATE, 120);
IS(LEAN_CONTEXT_OVERFLOW, 130);
IS(LEAN_BUDGET_TOO_SMALL, 131);
IS(LEAN_TRUNCATED, 132);
IS(LEAN_MODEL_IO, 200);
IS(LEAN_BAD_MODEL, 201);
IS(LEAN_UNSUPPORTED_MODEL, 202);
IS(LEAN_BAD_CHECKPOINT, 300);
IS(LEAN_INCOMPATIBLE, 301);
IS(LEAN_OUT_OF_MEMORY, 400);
IS(LEAN_DEVICE_LOST, 401);
IS(LEAN_DEVICE, 402);
IS(LEAN_IO, 410);
IS(LEAN_BUSY, 420);
IS(LEAN_CANCELLED, 500);
IS(LEAN_TIMEOUT, 501);
IS(LEAN_INTERNAL, 900);
IS(LEAN_PANIC, 901);
IS(LEAN_LOG_ERROR, 1);
IS(LEAN_LOG_WARNING, 2);
IS(LEAN_LOG_INFO, 3);
IS(LEAN_BACKEND_AUTO, 0);
IS(LEAN_BACKEND_CPU, 1);
IS(LEAN_BACKEND_GPU, 2);
IS(LEAN_LOAD_PORTABLE, 1);
IS(LEAN_LOAD_MMAP, 2);
IS(LEAN_LOAD_SOFTWARE_GPU, 4);
IS(LEAN_GENERATE_KEEP_PARTIAL, 1);
IS(LEAN_EVENTS_PREFILL, 1);
IS(LEAN_EVENTS_TOKEN, 2);
IS(LEAN_EVENTS_TEXT, 4);
IS(LEAN_EVENTS_PARTIAL, 8);
IS(LEAN_EVENTS_CANDIDATES, 16);
IS(LEAN_EVENTS_ALL, 0xffffffff);
IS(LEAN_EVENT_PREFILL, 1);
IS(LEAN_EVENT_TOKEN, 2);
IS(LEAN_EVENT_TEXT, 3);
IS(LEAN_EVENT_PARTIAL, 4);
IS(LEAN_EVENT_CANDIDATES, 5);
IS(LEAN_PORT_OPEN, 0);
IS(LEAN_PORT_CLOSED, 1);
IS(LEAN_PORT_SHUTDOWN, 2);
IS(LEAN_PORT_PROTOCOL, 3);
IS(LEAN_WAIT_FOREVER, 0xffffffff);
IS(LEAN_RESTORE_EXACT, 0);
IS(LEAN_RESTORE_CONVERT, 1);
IS(LEAN_RESTORE_REPREFILL, 2);
IS(LEAN_RESTORED_NONE, 0);
IS(LEAN_RESTORED_SHARED, 1);
IS(LEAN_RESTORED_IMPORTED, 2);
IS(LEAN_RESTORED_CONVERTED, 3);
IS(LEAN_RESTORED_REPREFILLED, 4);
IS(LEAN_FINISH_COMPLETE, 0);
IS(LEAN_FINISH_STOP, 1);
IS(LEAN_FINISH_LENGTH, 2);
IS(LEAN_KIND_NULL, 0);
IS(LEAN_KIND_BOOLEAN, 1);
IS(LEAN_KIND_NUMBER, 2);
IS(LEAN_KIND_STRING, 3);
IS(LEAN_KIND_ARRAY, 4);
IS(LEAN_KIND_OBJECT, 5);
IS(LEAN_PRECISION_EXACT, 0);
IS(LEAN_PRECISION_FAST, 1);
IS(LEAN_NONE, UINT64_MAX);
IS(LEAN_CSTR, SIZE_MAX);

ASSERT(sizeof(lean_status) == 4, lean_status_size);

AT(lean_load_options, struct_size, 0);
AT(lean_load_options, backend, 4);
AT(lean_load_options, threads, 8);
AT(lean_load_options, flags, 12);
AT(lean_load_options, adapter, 16);
AT(lean_load_options, adapter_length, 24);
AT(lean_load_options, progress, 32);
AT(lean_load_options, progress_user, 40);
AT(lean_load_options, cancel, 48);
AT(lean_load_options, prefix_cache_bytes, 56);
AT(lean_load_options, kv, 64);
AT(lean_load_options, precision, 68);
SIZE(lean_load_options, 72);

AT(lean_session_options, struct_size, 0);
AT(lean_session_options, reserved, 4);
AT(lean_session_options, context, 8);
SIZE(lean_session_options, 16);

AT(lean_prefill_options, struct_size, 0);
AT(lean_prefill_options, reserved, 4);
AT(lean_prefill_options, progress, 8);
AT(lean_prefill_options, progress_user, 16);
AT(lean_prefill_options, cancel, 24);
SIZE(lean_prefill_options, 32);

AT(lean_generate_options, struct_size, 0);
AT(lean_generate_options, flags, 4);
AT(lean_generate_options, max_tokens, 8);
AT(lean_generate_options, temperature, 16);
AT(lean_generate_options, top_p, 20);
AT(lean_generate_options, min_p, 24);
AT(lean_generate_options, repetition_penalty, 28);
AT(lean_generate_options, repetition_window, 32);
AT(lean_generate_options, top_k, 36);
AT(lean_generate_options, seed, 40);
AT(lean_generate_options, stop, 48);
AT(lean_generate_options, stop_lengths, 56);
AT(lean_generate_options, stop_count, 64);
AT(lean_generate_options, cancel, 72);
AT(lean_generate_options, timeout_ms, 80);
AT(lean_generate_options, events, 88);
AT(lean_generate_options, candidates, 92);
SIZE(lean_generate_options, 96);

AT(lean_resume_options, struct_size, 0);
AT(lean_resume_options, events, 4);
AT(lean_resume_options, cancel, 8);
SIZE(lean_resume_options, 16);

AT(lean_event, struct_size, 0);
AT(lean_event, kind, 4);
AT(lean_event, done, 8);
AT(lean_event, total, 16);
AT(lean_event, text, 24);
AT(lean_event, text_length, 32);
AT(lean_event, token, 40);
AT(lean_event, forced, 44);
AT(lean_event, path, 48);
AT(lean_event, path_length, 56);
SIZE(lean_event, 64);

AT(lean_usage, struct_size, 0);
AT(lean_usage, reserved, 4);
AT(lean_usage, prompt_tokens, 8);
AT(lean_usage, reused_tokens, 16);
AT(lean_usage, sampled_tokens, 24);
AT(lean_usage, forced_tokens, 32);
AT(lean_usage, passes, 40);
AT(lean_usage, first_token_seconds, 48);
AT(lean_usage, total_seconds, 56);
AT(lean_usage, tokens_per_second, 64);
AT(lean_usage, saved_passes, 72);
SIZE(lean_usage, 80);

AT(lean_stats, struct_size, 0);
AT(lean_stats, reserved, 4);
AT(lean_stats, passes, 8);
AT(lean_stats, slots, 16);
AT(lean_stats, tokens, 24);
AT(lean_stats, pages_copied, 32);
AT(lean_stats, weight_bytes, 40);
AT(lean_stats, state_bytes, 48);
AT(lean_stats, prefix_lookups, 56);
AT(lean_stats, prefix_hits, 64);
AT(lean_stats, prefix_tokens_reused, 72);
AT(lean_stats, prefix_entries, 80);
AT(lean_stats, prefix_bytes, 88);
AT(lean_stats, prefix_budget, 96);
AT(lean_stats, prefix_evictions, 104);
SIZE(lean_stats, 112);
